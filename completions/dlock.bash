# Rendered from the grammar and completions/parts/dlock.bash by:
# DLOCK_UPDATE=1 cargo test --locked --test it generated

# Sets `options` to the options of the subcommand $1, `arguments` to the kinds of its arguments, `kind` to the kind of
# the value of its option $2, and `subcommands` to all subcommands.
_dlock_option() {
    subcommands='exec hold status list wait check leader note history forget release prune explain setup serve doctor copy-to version help'
    options='' arguments='' kind=''
    case $1 in
        '')
            options='-q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            case $2 in
                --log-format) kind='text json' ;;
                --url | --host | --port | --user | --database) kind='text' ;;
                --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
        exec)
            options='-a --action -t --ttl -w --wait -n --nonblock -E --conflict-exit-code --connect-timeout --max-runtime --stop-signal --server-sessions --heartbeat-file --holder --note --slots --shared --fence --history --metrics-file --on-event --once --once-per --min-hold --grace --hide-credentials --hide-args -q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            arguments='name'
            case $2 in
                -a | --action) kind='name' ;;
                -t | --ttl | -w | --wait | -E | --conflict-exit-code | --connect-timeout | --max-runtime | --stop-signal | --holder | --note | --slots | --history | --once-per | --min-hold | --grace | --url | --host | --port | --user | --database) kind='text' ;;
                --server-sessions) kind='kill wait ignore' ;;
                --heartbeat-file | --metrics-file | --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --on-event) kind='command' ;;
                --log-format) kind='text json' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
        hold)
            options='-a --action -t --ttl -w --wait -n --nonblock -E --conflict-exit-code --connect-timeout --max-runtime --stop-signal --server-sessions --heartbeat-file --holder --note --slots --shared --fence --history --metrics-file --on-event --pid --on-lost --json --state-file --grace -q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            arguments='name'
            case $2 in
                -a | --action) kind='name' ;;
                -t | --ttl | -w | --wait | -E | --conflict-exit-code | --connect-timeout | --max-runtime | --stop-signal | --holder | --note | --slots | --history | --pid | --grace | --url | --host | --port | --user | --database) kind='text' ;;
                --server-sessions) kind='kill wait ignore' ;;
                --heartbeat-file | --metrics-file | --state-file | --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --on-event) kind='command' ;;
                --on-lost) kind='stop report' ;;
                --log-format) kind='text json' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
        status)
            options='-a --action --all --json --check --statements --wide --color --watch --operator -q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            arguments='name...'
            case $2 in
                -a | --action) kind='name' ;;
                --color) kind='auto always never' ;;
                --operator | --url | --host | --port | --user | --database) kind='text' ;;
                --log-format) kind='text json' ;;
                --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
        list)
            options='--json --wide --color -q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            case $2 in
                --color) kind='auto always never' ;;
                --log-format) kind='text json' ;;
                --url | --host | --port | --user | --database) kind='text' ;;
                --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
        wait)
            options='-a --action --done --timeout --connect-timeout -q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            arguments='name'
            case $2 in
                -a | --action) kind='name' ;;
                --timeout | --connect-timeout | --url | --host | --port | --user | --database) kind='text' ;;
                --log-format) kind='text json' ;;
                --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
        check)
            options='-a --action --token --sql -q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            arguments='name'
            case $2 in
                -a | --action) kind='name' ;;
                --token | --url | --host | --port | --user | --database) kind='text' ;;
                --log-format) kind='text json' ;;
                --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
        leader)
            options='-a --action -f --follow -w --wait --json -q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            arguments='name'
            case $2 in
                -a | --action) kind='name' ;;
                -w | --wait | --url | --host | --port | --user | --database) kind='text' ;;
                --log-format) kind='text json' ;;
                --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
        note)
            options='-a --action --token -q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            arguments='text'
            case $2 in
                -a | --action) kind='name' ;;
                --token | --url | --host | --port | --user | --database) kind='text' ;;
                --log-format) kind='text json' ;;
                --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
        history)
            options='-a --action --number --failed --since -f --follow --json --wide --color -q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            arguments='name...'
            case $2 in
                -a | --action) kind='name' ;;
                --number | --since | --url | --host | --port | --user | --database) kind='text' ;;
                --color) kind='auto always never' ;;
                --log-format) kind='text json' ;;
                --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
        forget)
            options='-a --action --once --operator --reason -q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            arguments='name'
            case $2 in
                -a | --action) kind='name' ;;
                --operator | --reason | --url | --host | --port | --user | --database) kind='text' ;;
                --log-format) kind='text json' ;;
                --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
        release)
            options='-a --action --token --slot --all --reason -y --yes --pause --create --resume --operator -q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            arguments='name'
            case $2 in
                -a | --action) kind='name' ;;
                --token | --slot | --reason | --pause | --operator | --url | --host | --port | --user | --database) kind='text' ;;
                --log-format) kind='text json' ;;
                --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
        prune)
            options='--older-than --done --dry-run -y --yes -q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            arguments='text'
            case $2 in
                --older-than | --url | --host | --port | --user | --database) kind='text' ;;
                --log-format) kind='text json' ;;
                --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
        explain)
            options='-q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            arguments='text'
            case $2 in
                --log-format) kind='text json' ;;
                --url | --host | --port | --user | --database) kind='text' ;;
                --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
        setup)
            options='--print -q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            case $2 in
                --log-format) kind='text json' ;;
                --url | --host | --port | --user | --database) kind='text' ;;
                --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
        serve)
            options='--listen --token-file --allow-host --interval -q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            case $2 in
                --listen | --allow-host | --interval | --url | --host | --port | --user | --database) kind='text' ;;
                --token-file | --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --log-format) kind='text json' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
        doctor)
            options='--session-user --json -q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            case $2 in
                --session-user | --url | --host | --port | --user | --database) kind='text' ;;
                --log-format) kind='text json' ;;
                --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
        copy-to)
            options='-q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            arguments='file'
            case $2 in
                --log-format) kind='text json' ;;
                --url | --host | --port | --user | --database) kind='text' ;;
                --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
        version)
            options='-q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            case $2 in
                --log-format) kind='text json' ;;
                --url | --host | --port | --user | --database) kind='text' ;;
                --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
        help)
            options='-q --quiet -v --verbose --log-format --url --url-file --defaults-file --host --port --socket --user --password-file --database --ssl-mode --ssl-ca --ssl-cert --ssl-key -h --help -V --version'
            arguments='text'
            case $2 in
                --log-format) kind='text json' ;;
                --url | --host | --port | --user | --database) kind='text' ;;
                --url-file | --defaults-file | --socket | --password-file | --ssl-ca | --ssl-cert | --ssl-key) kind='file' ;;
                --ssl-mode) kind='disabled required verify_ca verify_identity' ;;
            esac
            ;;
    esac
}

# Sets `text` to the value of the word $1, and `quote` to a quote that the word opens and does not close. Executes
# nothing: fails if the word contains an expansion.
_dlock_unquote() {
    local rest=$1 char
    text='' quote=''
    while [[ -n $rest ]]; do
        char=${rest:0:1} rest=${rest:1}
        case $quote$char in
            \' | \") quote=$char ;;
            \'\' | \"\") quote='' ;;
            \'*) text+=$char ;;
            \$ | \` | \"\$ | \"\`) return 1 ;;
            \\) text+=${rest:0:1} rest=${rest:1} ;;
            \"\\)
                [[ $rest == [\"\\\$\`]* ]] || text+=$char
                text+=${rest:0:1} rest=${rest:1}
                ;;
            *) text+=$char ;;
        esac
    done
}

# Completes the name of a lock. $1 is the value as typed. $2 is what stands before it in the word, for example
# --action=. $3 is the part of the word that readline does not replace.
_dlock_names() {
    local text quote prefix open program=dlock skip='' name candidate i
    _dlock_unquote "${words[0]}" && [[ $text == */* ]] && program=${text/#\~\//"$HOME/"}
    local before=()
    for ((i = 1; i < last; i++)); do
        # A word with an expansion is passed unchanged.
        _dlock_unquote "${words[i]}" || text=${words[i]}
        [[ ${words[i]} != \~/* ]] || text=$HOME/${text:2}
        before+=("$text")
    done
    _dlock_unquote "$1" || return
    prefix=$text open=$quote
    # readline replaces the text after an open quote, which must be the first character.
    [[ -z $open || $1 == "$open"* ]] || return
    if [[ -n $3 ]]; then
        _dlock_unquote "${3#"$2"}" || return
        printf -v skip %q "$text"
        [[ -n $text ]] || skip=''
        skip=$2$skip
    fi
    while IFS= read -r name; do
        case $open in
            '') printf -v candidate %q "$name" && candidate=$2$candidate ;;
            \') candidate=${name//\'/\'\\\'\'} ;;
            \")
                # No escape sequence stops the history expansion.
                [[ $name != *!* ]] || continue
                candidate=${name//\\/\\\\} candidate=${candidate//\"/\\\"}
                candidate=${candidate//\$/\\\$} candidate=${candidate//\`/\\\`}
                ;;
        esac
        [[ $candidate == "$skip"* ]] && COMPREPLY+=("${candidate#"$skip"}")
    done < <(command "$program" complete-names "$prefix" -- "${before[@]}" 2>/dev/null)
}

# Completes the command of exec, which begins at the word $1 of COMP_WORDS. $2 is the current word.
_dlock_command() {
    local name
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$1"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif (($1 == COMP_CWORD)); then
        while IFS= read -r name; do
            COMPREPLY+=("$name")
        done < <(compgen -c -- "$2")
    else
        compopt -o default 2>/dev/null
    fi
}

# Completes a value. $1 is its kind, and the other parameters are those of _dlock_names. A kind is name, file, command,
# text, or a list of words.
_dlock_value() {
    case $1 in
        name) _dlock_names "$2" "$3" "$4" ;;
        file) compopt -o default 2>/dev/null ;;
        command) COMPREPLY=($(compgen -c -- "$2")) ;;
        text | '') ;;
        *) COMPREPLY=($(compgen -W "$1" -- "$2")) ;;
    esac
}

_dlock() {
    local line=${COMP_LINE:0:COMP_POINT} words=() starts=() last=-1 part head i j
    COMPREPLY=()
    # Joins the words that readline splits at = and :.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        if ((i == 0)) || [[ $line == [[:blank:]]* ]]; then
            line=${line#"${line%%[![:blank:]]*}"}
            starts[++last]=$i words[last]=''
        fi
        part=${COMP_WORDS[i]}
        ((i < COMP_CWORD)) || part=$line
        head=${words[last]}
        words[last]+=$part
        line=${line#"$part"}
    done
    local current=${words[last]}
    [[ $part != [=:]* ]] || head=$current

    # Finds the subcommand, the number of its arguments, and the option that awaits its value.
    local options kinds kind subcommands subcommand='' option='' count=0 word text quote arguments only_arguments=''
    for ((i = 1; i < last; i++)); do
        _dlock_unquote "${words[i]}" && word=$text || word=${words[i]}
        if [[ -n $option ]]; then
            option=''
        elif [[ -z $only_arguments && $word == -- ]]; then
            if [[ $subcommand == exec ]]; then
                _dlock_command "${starts[i + 1]}" "$current"
                return
            fi
            only_arguments=1
        elif [[ -z $only_arguments && $word == --* ]]; then
            _dlock_option "$subcommand" "$word"
            [[ -z $kind ]] || option=$word
        elif [[ -z $only_arguments && $word == -?* ]]; then
            for ((j = 1; j < ${#word}; j++)); do
                _dlock_option "$subcommand" "-${word:j:1}"
                [[ -z $kind ]] || break
            done
            ((j + 1 != ${#word})) || option=-${word:j:1}
        elif [[ -z $subcommand ]]; then
            subcommand=$word
        else
            _dlock_option "$subcommand" ''
            kinds=($arguments)
            if [[ ${kinds[count]} == command* ]]; then
                _dlock_command "${starts[i]}" "$current"
                return
            fi
            [[ ${kinds[count]} == *... ]] || ((++count))
        fi
    done

    _dlock_option "$subcommand" "${option:-${current%%=*}}"
    if [[ -n $option ]]; then
        _dlock_value "$kind" "$current" '' "$head"
    elif [[ -z $only_arguments && $current == --*=* ]]; then
        _dlock_value "$kind" "${current#*=}" "${current%%=*}=" "$head"
    elif [[ -z $only_arguments && $current == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
    elif [[ -z $subcommand ]]; then
        COMPREPLY=($(compgen -W "$subcommands" -- "$current"))
    else
        kinds=($arguments)
        kind=${kinds[count]%...}
        if [[ $kind == command ]]; then
            _dlock_command "${starts[last]}" "$current"
        else
            _dlock_value "$kind" "$current" '' "$head"
        fi
    fi
}

complete -F _dlock dlock
