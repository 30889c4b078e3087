# shellcheck shell=bash
# What is found out, row by row, and the table at the end. Sourced by gpu.sh. A row's verdict is ok, MISSED, seen
# (nothing was asked of it) or lacking (it could not be found out here).

rows=$work/rows.tsv
: >"$rows"

# $section is the section under way.
row() { printf '%s\t%s\t%s\t%s\t%s\n' "$section" "$1" "$2" "$3" "$4" >>"$rows"; }
note() { row "$1" "$2" - seen; }           # CHECK VALUE
lacking() { row "$1" "$2" - lacking; }     # CHECK WHAT
failed() { row "$1" "${2:--}" - MISSED; }  # CHECK [WHY]

# CHECK VALUE RELATION LIMIT [REMARK]: whether VALUE, a number, is in RELATION (<=, >=, ==) to LIMIT.
hold() {
  local verdict=MISSED
  local number='^[-+]?[.0-9]+(e[-+]?[0-9]+)?$'
  if [[ $2 =~ $number ]] && awk "BEGIN { exit !($2 $3 $4) }"; then verdict=ok; fi
  row "$1" "${2:-nothing}${5:+ ($5)}" "$3 $4" "$verdict"
}

# Of numbers in lines.
median() { sort -g | awk '{ value[NR] = $1 } END { if (NR > 0) print value[int((NR + 1) / 2)] }'; }
extremes() { sort -g | awk 'NR == 1 { least = $1 } END { print least " to " $1 }'; }

# print_table PART; ends the program where a row says MISSED.
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
