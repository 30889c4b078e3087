// The page of sweeps, embedded in the program, which sweep_report.cc reads. CMakeLists.txt defines its path.
__asm__(R"(
  .section .rodata
  .global tethys_sweep_page, tethys_sweep_page_end
tethys_sweep_page:
  .incbin ")" TETHYS_SWEEP_PAGE R"("
tethys_sweep_page_end:
  .byte 0
  .text
)");
