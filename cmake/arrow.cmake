# The C++ libraries of Apache Arrow out of the pyarrow wheel (tools/setup.sh --arrow), for parquet and arrow files.
# Without them everything else is built, and the program says how to have them.

set(arrow_dir ${PROJECT_SOURCE_DIR}/.deps/pyarrow)
if(DEFINED ENV{TESSERA_ARROW_DIR})
  set(arrow_dir $ENV{TESSERA_ARROW_DIR})
endif()
file(GLOB arrow_libraries ${arrow_dir}/libarrow.so.* ${arrow_dir}/libparquet.so.*)
if(EXISTS ${arrow_dir}/include/arrow/api.h AND arrow_libraries)
  add_library(tessera_arrow SHARED ${PROJECT_SOURCE_DIR}/apps/tessera_arrow/arrow_rows.cpp)
  target_include_directories(tessera_arrow SYSTEM PRIVATE ${arrow_dir}/include)
  target_link_libraries(tessera_arrow PRIVATE tessera_flags ${arrow_libraries})
  set_target_properties(tessera_arrow PROPERTIES OUTPUT_NAME tessera-arrow
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin BUILD_RPATH ${arrow_dir} INSTALL_RPATH ${arrow_dir})
  install(TARGETS tessera_arrow LIBRARY DESTINATION bin)
  add_dependencies(programs tessera_arrow)
endif()
