# shellcheck shell=bash disable=SC2034
# Finds programs, data and libraries: in the unpacked folder or the source tree, and on the machine. Sourced by gpu.sh.
#
#   $tethys, $data, $jobs, $peers              the command, Fashion-MNIST's files, examples/, PyTorch's side of bench
#   program NAME ARGUMENT...                   runs a test or benchmark
#   program_under TOOL... -- NAME ARGUMENT...  runs a test or benchmark under a tool such as compute-sanitizer
#   limited PROGRAM ARGUMENT...                runs any program within the time limit

limit=${LIMIT:-200}  # Time limit of each program, in seconds.

# A program runs in a process group of its own, which signals to the script do not reach. So while a program
# runs, the folder $work/running contains a file that is named after the group's leader. On a signal the
# script ends all groups that have a file in this folder. The program runs in the background, so that the
# script can handle a signal while it waits for the program. Once the script is ending, no program is started.
limited() {
  local leader status=0
  [ ! -e "$work/ending" ] || return 143
  timeout -k 10 "$limit" "$@" &
  leader=$!
  : >"$work/running/$leader"
  wait "$leader" || status=$?
  rm -f "$work/running/$leader"
  return "$status"
}

if [ -x "$here/tethys" ]; then  # In the unpacked folder.
  tethys=$here/tethys
  data=$here/data
  jobs=$here/examples
  peers=$here
  own_libraries=$here/lib  # Without the C library.
  program() { LD_LIBRARY_PATH=$(search_path) limited "$here/$1" "${@:2}"; }
  binary() { echo "$here/lib/$1"; }
else
  root=$(dirname "$here")
  build=$(cd "$root" && realpath "${BUILD:-build/release}")
  tethys=$build/deploy/tethys
  data=/usr/share/datasets/fashion-mnist
  jobs=$root/examples
  peers=$here/bench/peers
  own_libraries=
  program() { LD_LIBRARY_PATH=$(search_path) limited "$(binary "$1")" "${@:2}"; }
  binary() { find "$build/tests" -name "$1" -type f -perm -u+x -print -quit; }
fi

# python_with MODULE: prints the first Python that has this module, or nothing.
python_with() {
  local python
  for python in ${PYTHON:+"$PYTHON"} python3 /usr/bin/python3; do
    if "$python" -c "import importlib.util as u, sys; sys.exit(u.find_spec('$1') is None)" 2>/dev/null; then
      echo "$python"
      return
    fi
  done
}

# True if the system's loader finds all of NVIDIA's libraries that libtethys_cuda.so needs.
system_has_libraries() {
  local known library
  known=$(ldconfig -p 2>/dev/null) || return
  for library in libcublasLt.so.13 libcudnn.so.9 libnccl.so.2; do
    [[ $known == *"$library "* ]] || return
  done
}

# Prints the folders of CUDA_LIBRARY_PATH or, if the system lacks a library, the folders of PyTorch's wheels,
# one per line.
library_paths() {
  local python
  if [ -n "${CUDA_LIBRARY_PATH:-}" ]; then
    tr : '\n' <<<"$CUDA_LIBRARY_PATH"
  elif [ "$device" = cuda ] && ! system_has_libraries; then
    python=$(python_with nvidia)
    [ -z "$python" ] || "$python" -c 'import nvidia, os; print(os.path.dirname(list(nvidia.__path__)[0]))'
  fi
}
mapfile -t cuda_libraries < <(library_paths)

# Prints the loader's search path: Tethys's libraries, $cuda_libraries and the wheels in them,
# LD_LIBRARY_PATH.
search_path() {
  local folder place path=$own_libraries
  for folder in "${cuda_libraries[@]}"; do
    for place in "$folder" "$folder"/nvidia/*/lib; do
      if [ -d "$place" ]; then path+=:$place; fi
    done
  done
  path+=:${LD_LIBRARY_PATH:-}
  path=${path#:}
  echo "${path%:}"
}

# Starts the program by the system's loader, because tools need this. If the system's C library is too old,
# starts the program by the bundle's loader instead.
program_under() {
  local tool=() name libraries
  while [ "$1" != -- ]; do
    tool+=("$1")
    shift
  done
  name=$(binary "$2")
  shift 2
  libraries=$(search_path)
  if [ -z "$own_libraries" ] || LD_LIBRARY_PATH=$libraries "$name" --gtest_list_tests >/dev/null 2>&1; then
    LD_LIBRARY_PATH=$libraries limited "${tool[@]}" "$name" "$@"
  else
    limited "${tool[@]}" "$own_libraries"/c/ld-linux*.so.* --library-path "$libraries:$own_libraries/c" \
      "$name" "$@"
  fi
}
