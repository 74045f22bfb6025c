#include "textflag.h"

// The layout of call and failure is that of fork_linux.go.
#define call_number 0
#define call_args 8
#define call_save 56
#define call_use 64
#define call_tolerated 72
#define call_expect 80
#define call_size 88
#define SYS_exit_group 231

// func fork(number, first, second uintptr, calls *call, count uintptr, failed *failure) (pid, errno uintptr)
TEXT ·fork(SB),NOSPLIT|NOFRAME,$0-64
	MOVQ	calls+24(FP), R12
	MOVQ	count+32(FP), R13
	MOVQ	failed+40(FP), BX
	MOVQ	first+8(FP), DI
	MOVQ	second+16(FP), SI
	MOVQ	number+0(FP), AX
	MOVQ	$0, DX
	MOVQ	$0, R10
	MOVQ	$0, R8
	MOVQ	$0, R9
	SYSCALL
	CMPQ	AX, $0
	JEQ	child
	CMPQ	AX, $0xfffffffffffff001
	JLS	parent
	MOVQ	$0, pid+48(FP)
	NEGQ	AX
	MOVQ	AX, errno+56(FP)
	RET
parent:
	MOVQ	AX, pid+48(FP)
	MOVQ	$0, errno+56(FP)
	RET

	// The child has the memory of the parent, and its stack: it must not touch the stack.
child:
	CMPQ	R13, $0
	JEQ	exit
	MOVQ	call_number(R12), AX
	MOVQ	call_args+0(R12), DI
	MOVQ	call_args+8(R12), SI
	MOVQ	call_args+16(R12), DX
	MOVQ	call_args+24(R12), R10
	MOVQ	call_args+32(R12), R8
	MOVQ	call_args+40(R12), R9
	MOVQ	call_use(R12), CX
	CMPQ	CX, $0
	JEQ	perform
	MOVQ	0(CX), DI
perform:
	SYSCALL
	CMPQ	AX, $0xfffffffffffff001
	JLS	performed
	NEGQ	AX
	CMPQ	AX, call_tolerated(R12)
	JEQ	next
	JMP	fail
performed:
	MOVQ	call_expect(R12), CX
	CMPQ	CX, $0
	JEQ	save
	CMPQ	AX, CX
	JEQ	save
	MOVQ	$0, AX
	JMP	fail
save:
	MOVQ	call_save(R12), CX
	CMPQ	CX, $0
	JEQ	next
	MOVQ	AX, 0(CX)
next:
	ADDQ	$call_size, R12
	DECQ	R13
	JMP	child
fail:
	MOVQ	AX, 8(BX)
	MOVQ	R12, 0(BX)
exit:
	MOVQ	$253, DI
	MOVQ	$SYS_exit_group, AX
	SYSCALL
	JMP	exit
