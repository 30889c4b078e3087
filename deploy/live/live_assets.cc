// The page of the live view, embedded in the program, which live_pages.cc reads. CMakeLists.txt defines its
// path.
__asm__(R"(
  .section .rodata
  .global tethys_live_page, tethys_live_page_end
tethys_live_page:
  .incbin ")" TETHYS_LIVE_PAGE R"("
tethys_live_page_end:
  .byte 0
  .text
)");
