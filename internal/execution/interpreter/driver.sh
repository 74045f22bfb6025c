# The shell's side of an interpreter: it runs code in one shell, one request after the other.
#
# A request on the control pipe has four fields, each ended by a NUL: what to do, its number, a mark that a shell does not
# need, and the code. Behind it comes the mark of the end, on a line of its own, which is read when the code has ended:
# nothing that the code prints can be taken for the end. A frame is a NUL, a mark, a length, a colon and as many bytes.

# The code is run by a file that is sourced, so that declarations are global and an interruption can return from it.
if [[ ${__reprise_inner-} ]]; then
	__reprise_inner=
	eval "$__reprise_code"
	return
fi

exec {__reprise_control}<&0 {__reprise_stdout}>&1 {__reprise_stderr}>&2 </dev/null
__reprise_script=${BASH_SOURCE[0]} __reprise_home=$PWD

# After INT every command below the driver is skipped, and every function and file returned from.
__reprise_interrupt() {
	__reprise_interrupted=1
	shopt -s extdebug
	trap __reprise_unwind DEBUG
}
__reprise_unwind() { ((${#BASH_SOURCE[@]} > 2)) && return 2 || return 0; }

__reprise_finish() {
	local mark text="end $1"
	IFS= read -r -u "$__reprise_control" mark || exit
	printf '\0%s0:' "$mark" >&"$__reprise_stderr" && printf '\0%s%d:%s' "$mark" "${#text}" "$text" >&"$__reprise_stdout" || exit
}

__reprise_clear() {
	local -a environ=()
	__reprise_finish 0
	cd -- "$__reprise_home" || exit
	[[ -r /proc/$$/environ ]] && mapfile -d '' environ <"/proc/$$/environ"
	exec <&"$__reprise_control" >&"$__reprise_stdout" 2>&"$__reprise_stderr"
	((${#environ[@]})) && exec -c env "${environ[@]}" "$BASH" "$__reprise_script"
	exec "$BASH" "$__reprise_script"
}

trap '' INT
while IFS= read -r -d '' -u "$__reprise_control" __reprise_op && IFS= read -r -d '' -u "$__reprise_control" __reprise_code &&
	IFS= read -r -d '' -u "$__reprise_control" __reprise_code && IFS= read -r -d '' -u "$__reprise_control" __reprise_code; do
	[[ $__reprise_op == clear ]] && __reprise_clear
	[[ -e /dev/fd/1 ]] || exec >&"$__reprise_stdout"
	[[ -e /dev/fd/2 ]] || exec 2>&"$__reprise_stderr"
	__reprise_interrupted= __reprise_inner=1
	trap __reprise_interrupt INT
	. "$__reprise_script"
	__reprise_status=$?
	trap '' INT
	trap - DEBUG
	shopt -u extdebug
	set +T
	[[ $__reprise_interrupted ]] && __reprise_status=130
	__reprise_finish "$__reprise_status"
done
