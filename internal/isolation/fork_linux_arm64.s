#include "textflag.h"

// The layout of call and failure is that of fork_linux.go.
#define call_number 0
#define call_args 8
#define call_save 56
#define call_use 64
#define call_tolerated 72
#define call_expect 80
#define call_size 88
#define SYS_exit_group 94

// func fork(number, first, second uintptr, calls *call, count uintptr, failed *failure) (pid, errno uintptr)
TEXT ·fork(SB),NOSPLIT|NOFRAME,$0-64
	MOVD	calls+24(FP), R19
	MOVD	count+32(FP), R20
	MOVD	failed+40(FP), R21
	MOVD	first+8(FP), R0
	MOVD	second+16(FP), R1
	MOVD	number+0(FP), R8
	MOVD	$0, R2
	MOVD	$0, R3
	MOVD	$0, R4
	MOVD	$0, R5
	SVC
	CBZ	R0, child
	CMN	$4095, R0
	BCC	parent
	MOVD	$0, R1
	MOVD	R1, pid+48(FP)
	NEG	R0, R0
	MOVD	R0, errno+56(FP)
	RET
parent:
	MOVD	R0, pid+48(FP)
	MOVD	$0, R1
	MOVD	R1, errno+56(FP)
	RET

	// The child has the memory of the parent, and its stack: it must not touch the stack.
child:
	CBZ	R20, exit
	MOVD	call_number(R19), R8
	MOVD	(call_args+0)(R19), R0
	MOVD	(call_args+8)(R19), R1
	MOVD	(call_args+16)(R19), R2
	MOVD	(call_args+24)(R19), R3
	MOVD	(call_args+32)(R19), R4
	MOVD	(call_args+40)(R19), R5
	MOVD	call_use(R19), R9
	CBZ	R9, perform
	MOVD	(R9), R0
perform:
	SVC
	CMN	$4095, R0
	BCC	performed
	NEG	R0, R0
	MOVD	call_tolerated(R19), R9
	CMP	R0, R9
	BEQ	next
	JMP	fail
performed:
	MOVD	call_expect(R19), R9
	CBZ	R9, save
	CMP	R0, R9
	BEQ	save
	MOVD	$0, R0
	JMP	fail
save:
	MOVD	call_save(R19), R9
	CBZ	R9, next
	MOVD	R0, (R9)
next:
	ADD	$call_size, R19
	SUB	$1, R20
	JMP	child
fail:
	MOVD	R0, 8(R21)
	MOVD	R19, (R21)
exit:
	MOVD	$253, R0
	MOVD	$SYS_exit_group, R8
	SVC
	JMP	exit
