# Writes OUT, a source with the commit that SOURCE has checked out: cmake -DSOURCE=... -DOUT=... -P this. Empty where
# there is no git repository, or no git.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "")
endif()
file(WRITE ${OUT} "extern const char tethys_commit[];\nconst char tethys_commit[] = \"${commit}\";\n")
