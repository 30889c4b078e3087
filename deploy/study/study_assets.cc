// The page of studies, embedded in the program, which study_text.cc reads. CMakeLists.txt defines its path.
__asm__(R"(
  .section .rodata
  .global tethys_study_page, tethys_study_page_end
tethys_study_page:
  .incbin ")" TETHYS_STUDY_PAGE R"("
tethys_study_page_end:
  .byte 0
  .text
)");
