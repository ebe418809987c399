# One static library tessera_<folder> per folder of tessera/, with the sources of its rooms (folders inside
# it). What it links are the lower floors that
# it may include (tests/floors holds the includes to the same rule). A folder without sources is no
# target yet.

# tessera_floor(<folder> [TORCH] [FLOORS folder...] [PACKAGES target...])
function(tessera_floor folder)
  cmake_parse_arguments(arg "TORCH" "" "FLOORS;PACKAGES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tessera/${folder}/*.cpp
       ${PROJECT_SOURCE_DIR}/tessera/${folder}/*/*.cpp)
  set(target tessera_${folder})
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    target_link_libraries(${target} PUBLIC tessera_flags)
    if(arg_TORCH)
      tessera_use_torch(${target})
    endif()
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
    target_link_libraries(${target} INTERFACE tessera_flags)
    if(arg_TORCH)
      target_link_libraries(${target} INTERFACE torch_cpu_iface)
    endif()
  endif()
  list(TRANSFORM arg_FLOORS PREPEND tessera_)
  target_link_libraries(${target} ${scope} ${arg_FLOORS} ${arg_PACKAGES})
endfunction()

# Floors 0 and 1: no torch.
tessera_floor(base PACKAGES spdlog::spdlog fmt::fmt nlohmann_json::nlohmann_json Threads::Threads)
tessera_floor(config FLOORS base PACKAGES yaml-cpp::yaml-cpp)
tessera_floor(schedule FLOORS base)
tessera_floor(data FLOORS base PACKAGES sentencepiece::sentencepiece tessera_compression tessera_text ${CMAKE_DL_LIBS})
tessera_floor(layout FLOORS config schedule data base)
tessera_floor(storage FLOORS layout config data base PACKAGES OpenSSL::Crypto)
tessera_floor(rules FLOORS layout config schedule data base)
tessera_floor(planner FLOORS storage rules layout schedule config data base)
tessera_floor(launcher FLOORS planner storage rules layout config base PACKAGES OpenSSL::Crypto)
tessera_floor(observe FLOORS planner storage rules layout config base)
set(floor_1 launcher observe planner storage rules layout data schedule config base)

# nn and models are plain mathematics: they do not see comm.
tessera_floor(comm TORCH FLOORS ${floor_1})
# Headers of Gloo that the wheel does not ship (see the first of them).
target_include_directories(tessera_comm PRIVATE ${PROJECT_SOURCE_DIR}/tessera/comm/processes/gloo_stub)
tessera_floor(nn TORCH FLOORS ${floor_1})
# The random numbers must be the same bits on every processor: no fused multiply-add.
set_source_files_properties(${PROJECT_SOURCE_DIR}/tessera/nn/kernels/philox.cpp PROPERTIES
  COMPILE_OPTIONS -ffp-contract=off SKIP_PRECOMPILE_HEADERS ON)
# Sources of one instruction set see no headers but their own (and need none of libtorch).
file(GLOB flash_sources ${PROJECT_SOURCE_DIR}/tessera/nn/flash/*.cpp)
set_source_files_properties(${flash_sources} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
# So must AdamW's, whatever the place of an element. Roots of vectors need no errno.
set_source_files_properties(${PROJECT_SOURCE_DIR}/tessera/nn/kernels/adamw_rows.cpp PROPERTIES
  COMPILE_OPTIONS "-ffp-contract=off;-fno-math-errno;-fno-trapping-math" SKIP_PRECOMPILE_HEADERS ON)
tessera_floor(models TORCH FLOORS nn ${floor_1})
set(floor_4 models nn comm ${floor_1})

tessera_floor(parallel TORCH FLOORS ${floor_4})
tessera_floor(optim TORCH FLOORS ${floor_4})
tessera_floor(checkpoint TORCH FLOORS ${floor_4})
if(TARGET tessera_checkpoint)  # a checkpoint says which version wrote it
  target_compile_definitions(tessera_checkpoint PRIVATE TESSERA_VERSION="${PROJECT_VERSION}")
endif()
tessera_floor(train TORCH FLOORS parallel optim checkpoint ${floor_4})
tessera_floor(generate TORCH FLOORS train parallel optim checkpoint ${floor_4})
