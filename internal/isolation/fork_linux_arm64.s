#include "textflag.h"

// The layout of call and failure is that of fork_linux.go.
#define call_number 0
#define call_args 8
#define call_save 56
#define call_use 64
#define call_tolerated 72
#define call_expect 80
#define call_branch 88
#define call_size 96
#define SYS_exit_group 94

// func fork(number, first, second uintptr, calls *call, failed *failure) (pid, errno uintptr)
TEXT ·fork(SB),NOSPLIT|NOFRAME,$0-56
	MOVD	calls+24(FP), R19
	MOVD	failed+32(FP), R21
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
	MOVD	R1, pid+40(FP)
	NEG	R0, R0
	MOVD	R0, errno+48(FP)
	RET
parent:
	MOVD	R0, pid+40(FP)
	MOVD	$0, R1
	MOVD	R1, errno+48(FP)
	RET

	// The child has the memory of the parent, and its stack: it must not touch the stack.
child:
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
	MOVD	call_branch(R19), R9
	CBZ	R9, expected
	CBNZ	R0, save
	MOVD	R9, R19
	JMP	child
expected:
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
	JMP	child
fail:
	MOVD	(R21), R9
	CBNZ	R9, exit
	MOVD	R0, 8(R21)
	MOVD	R19, (R21)
exit:
	MOVD	$253, R0
	MOVD	$SYS_exit_group, R8
	SVC
	JMP	exit

// The first process of a process table of its own; see initImage. It neither moves nor uses an address of ours.
TEXT ·initCode(SB),NOSPLIT|NOFRAME,$0-0
	// prctl(PR_SET_NAME, argv[0])
	MOVD	$15, R0
	MOVD	8(RSP), R1
	MOVD	$167, R8
	SVC
	// read(0, the stack, 1)
	MOVD	$0, R0
	MOVD	RSP, R1
	MOVD	$1, R2
	MOVD	$63, R8
	SVC
	CMP	$1, R0
	BNE	over
	// pidfd_open(2, 0)
	MOVD	$2, R0
	MOVD	$0, R1
	MOVD	$434, R8
	SVC
	CMP	$0, R0
	BLT	over
	// On the stack: {pidfd, POLLIN}, {signalfd, POLLIN}, and room for a signal.
	MOVW	R0, 0(RSP)
	MOVD	$1, R1
	MOVW	R1, 4(RSP)
	// signalfd4(-1, {SIGCHLD}, 8, SFD_NONBLOCK)
	MOVD	$0x10000, R0
	MOVD	R0, 16(RSP)
	MOVD	$-1, R0
	ADD	$16, RSP, R1
	MOVD	$8, R2
	MOVD	$0x800, R3
	MOVD	$74, R8
	SVC
	CMP	$0, R0
	BLT	over
	MOVW	R0, 8(RSP)
	MOVD	$1, R1
	MOVW	R1, 12(RSP)
await:
	// ppoll(the stack, 2, NULL, NULL, 0)
	MOVD	RSP, R0
	MOVD	$2, R1
	MOVD	$0, R2
	MOVD	$0, R3
	MOVD	$0, R4
	MOVD	$73, R8
	SVC
	CMP	$0, R0
	BLT	over
	MOVHU	6(RSP), R0 // the command has ended
	CBNZ	R0, over
	// read(signalfd, ..., 128)
	MOVW	8(RSP), R0
	ADD	$16, RSP, R1
	MOVD	$128, R2
	MOVD	$63, R8
	SVC
orphans:
	// wait4(-1, NULL, WNOHANG, NULL)
	MOVD	$-1, R0
	MOVD	$0, R1
	MOVD	$1, R2
	MOVD	$0, R3
	MOVD	$260, R8
	SVC
	CMP	$0, R0
	BGT	orphans
	JMP	await
over:
	MOVD	$0, R0
	MOVD	$SYS_exit_group, R8
	SVC
	JMP	over

// func initText() *[initBytes]byte
TEXT ·initText(SB),NOSPLIT,$0-8
	MOVD	$·initCode(SB), R0
	MOVD	R0, ret+0(FP)
	RET
