// Files embedded in the program, which report.cc and page_parts.cc read. CMakeLists.txt defines their paths.
__asm__(R"(
  .section .rodata
  .global tethys_report_page, tethys_report_page_end, tethys_chart_library, tethys_chart_library_end
  .global tethys_answer_script, tethys_answer_script_end
  .global tethys_page_style, tethys_page_style_end, tethys_page_script, tethys_page_script_end
tethys_report_page:
  .incbin ")" TETHYS_REPORT_PAGE R"("
tethys_report_page_end:
  .byte 0
tethys_answer_script:
  .incbin ")" TETHYS_ANSWER_SCRIPT R"("
tethys_answer_script_end:
  .byte 0
tethys_chart_library:
  .incbin ")" TETHYS_CHART_LIBRARY R"("
tethys_chart_library_end:
  .byte 0
tethys_page_style:
  .incbin ")" TETHYS_PAGE_STYLE R"("
tethys_page_style_end:
  .byte 0
tethys_page_script:
  .incbin ")" TETHYS_PAGE_SCRIPT R"("
tethys_page_script_end:
  .byte 0
  .text
)");
