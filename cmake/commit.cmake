# cmake -DSOURCE=... -DOUT=... -P commit.cmake: writes OUT, a C++ source with the commit that is checked out in the
# folder SOURCE. The commit is empty if SOURCE is no git repository or git is missing.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "")
endif()
file(WRITE ${OUT} "extern const char tethys_commit[];\nconst char tethys_commit[] = \"${commit}\";\n")
