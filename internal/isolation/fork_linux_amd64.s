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
#define SYS_exit_group 231

// func fork(number, first, second uintptr, calls *call, failed *failure) (pid, errno uintptr)
TEXT ·fork(SB),NOSPLIT|NOFRAME,$0-56
	MOVQ	calls+24(FP), R12
	MOVQ	failed+32(FP), BX
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
	MOVQ	$0, pid+40(FP)
	NEGQ	AX
	MOVQ	AX, errno+48(FP)
	RET
parent:
	MOVQ	AX, pid+40(FP)
	MOVQ	$0, errno+48(FP)
	RET

	// The child has the memory of the parent, and its stack: it must not touch the stack.
child:
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
	MOVQ	call_branch(R12), CX
	CMPQ	CX, $0
	JEQ	expected
	CMPQ	AX, $0
	JNE	save
	MOVQ	CX, R12
	JMP	child
expected:
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
	JMP	child
fail:
	CMPQ	0(BX), $0
	JNE	exit
	MOVQ	AX, 8(BX)
	MOVQ	R12, 0(BX)
exit:
	MOVQ	$253, DI
	MOVQ	$SYS_exit_group, AX
	SYSCALL
	JMP	exit

// The first process of a process table of its own; see initImage. It neither moves nor uses an address of ours.
TEXT ·initCode(SB),NOSPLIT|NOFRAME,$0-0
	// prctl(PR_SET_NAME, argv[0])
	MOVQ	$15, DI
	MOVQ	8(SP), SI
	MOVQ	$157, AX
	SYSCALL
	// read(0, the stack, 1)
	MOVQ	$0, DI
	MOVQ	SP, SI
	MOVQ	$1, DX
	MOVQ	$0, AX
	SYSCALL
	CMPQ	AX, $1
	JNE	over
	// pidfd_open(2, 0)
	MOVQ	$2, DI
	MOVQ	$0, SI
	MOVQ	$434, AX
	SYSCALL
	CMPQ	AX, $0
	JLT	over
	// On the stack: {pidfd, POLLIN}, {signalfd, POLLIN}, and room for a signal.
	MOVL	AX, 0(SP)
	MOVL	$1, 4(SP)
	// signalfd4(-1, {SIGCHLD}, 8, SFD_NONBLOCK)
	MOVQ	$0x10000, AX
	MOVQ	AX, 16(SP)
	MOVQ	$-1, DI
	LEAQ	16(SP), SI
	MOVQ	$8, DX
	MOVQ	$0x800, R10
	MOVQ	$289, AX
	SYSCALL
	CMPQ	AX, $0
	JLT	over
	MOVL	AX, 8(SP)
	MOVL	$1, 12(SP)
await:
	// ppoll(the stack, 2, NULL, NULL, 0)
	MOVQ	SP, DI
	MOVQ	$2, SI
	MOVQ	$0, DX
	MOVQ	$0, R10
	MOVQ	$0, R8
	MOVQ	$271, AX
	SYSCALL
	CMPQ	AX, $0
	JLT	over
	CMPW	6(SP), $0 // the command has ended
	JNE	over
	// read(signalfd, ..., 128)
	MOVL	8(SP), DI
	LEAQ	16(SP), SI
	MOVQ	$128, DX
	MOVQ	$0, AX
	SYSCALL
orphans:
	// wait4(-1, NULL, WNOHANG, NULL)
	MOVQ	$-1, DI
	MOVQ	$0, SI
	MOVQ	$1, DX
	MOVQ	$0, R10
	MOVQ	$61, AX
	SYSCALL
	CMPQ	AX, $0
	JGT	orphans
	JMP	await
over:
	MOVQ	$0, DI
	MOVQ	$SYS_exit_group, AX
	SYSCALL
	JMP	over

// func initText() *[initBytes]byte
TEXT ·initText(SB),NOSPLIT,$0-8
	LEAQ	·initCode(SB), AX
	MOVQ	AX, ret+0(FP)
	RET
