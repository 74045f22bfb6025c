#compdef reprise
# Completion of reprise for zsh.
_reprise() {
    local -a described
    local line
    while IFS= read -r line; do
        described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done < <("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( $#described )); then
        _describe reprise described
    else
        _files
    fi
}
if [[ ${funcstack[1]} = _reprise ]]; then # compinit has loaded this file as the function
    _reprise "$@"
else
    compdef _reprise reprise
fi
