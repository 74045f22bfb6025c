# Completion of reprise for fish.
function __reprise_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] __complete -- $words[2..-1] 2>/dev/null
end
complete -c reprise -n 'test (count (__reprise_complete)) -gt 0' -f
complete -c reprise -a '(__reprise_complete)'
