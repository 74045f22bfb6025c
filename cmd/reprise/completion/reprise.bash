# Completion of reprise for bash.
_reprise() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("${line%%$'\t'*}")
    done < <("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    # A "=" ends a word for bash: what stands before it is there already.
    if [[ "${COMP_WORDS[COMP_CWORD]}" != *=* ]]; then
        COMPREPLY=("${COMPREPLY[@]#--*=}")
    fi
}
complete -o default -F _reprise reprise
