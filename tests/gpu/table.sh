# shellcheck shell=bash
# The table of results. Sourced by gpu.sh. A row's verdict is ok, MISSED, seen (it has no limit) or lacking (it could
# not be checked on this machine).

rows=$work/rows.tsv
: >"$rows"

# row CHECK VALUE LIMIT VERDICT: adds a row for the current section, $section, and shows the row on standard
# error, so that a part that is ended early still shows results.
row() { printf '%s\t%s\t%s\t%s\t%s\n' "$section" "$1" "$2" "$3" "$4" | tee -a "$rows" >&2; }
note() { row "$1" "$2" - seen; }           # note CHECK VALUE
lacking() { row "$1" "$2" - lacking; }     # lacking CHECK WHAT
failed() { row "$1" "${2:--}" - MISSED; }  # failed CHECK [WHY]

# hold CHECK VALUE RELATION LIMIT [REMARK]: checks that VALUE, a number, is in RELATION (<=, >=, ==) to LIMIT.
hold() {
  local verdict=MISSED
  local number='^[-+]?[.0-9]+(e[-+]?[0-9]+)?$'
  if [[ $2 =~ $number ]] && awk "BEGIN { exit !($2 $3 $4) }"; then verdict=ok; fi
  row "$1" "${2:-nothing}${5:+ ($5)}" "$3 $4" "$verdict"
}

# Print the median and the extremes of the numbers on standard input, one per line.
median() { sort -g | awk '{ value[NR] = $1 } END { if (NR > 0) print value[int((NR + 1) / 2)] }'; }
extremes() { sort -g | awk 'NR == 1 { least = $1 } END { print least " to " $1 }'; }

# print_table PART: prints the table; exits with 1 if a row says MISSED.
print_table() {
  echo
  awk -F'\t' '{ value = length($3) > 50 ? substr($3, 1, 47) "..." : $3
                 printf "%-10s %-32s %-50s %-8s %s\n", $1, $2, value, $4, $5 }' "$rows"
  if [ -n "${OUT:-}" ]; then
    mkdir -p "$OUT"
    cp "$rows" "$OUT/$1.tsv"
    tar -C "$work" -czf "$OUT/$1-logs.tar.gz" --exclude=checkpoints --exclude='lib' --exclude='*.html' .
  fi
  if grep -q $'\tMISSED$' "$rows"; then exit 1; fi
}
