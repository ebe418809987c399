# Language, flags of our own code, compiler cache and linker.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug, Asan, Tsan or Fuzz" FORCE)
endif()
# Assertions stay on in every configuration (no NDEBUG). -g1 keeps names and lines for stack traces
# at a tenth of the size of full debug information.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -g1")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")
# Under a sanitizer gcc takes members of std::function for uninitialized; and ATen has a fence, which
# the thread sanitizer does not follow (no code of ours orders memory by one).
set(CMAKE_CXX_FLAGS_ASAN
  "-O1 -g1 -fsanitize=address,undefined -fno-omit-frame-pointer -Wno-maybe-uninitialized")
set(CMAKE_CXX_FLAGS_TSAN
  "-O1 -g1 -fsanitize=thread -fno-omit-frame-pointer -Wno-maybe-uninitialized -Wno-tsan")

# Of clang: coverage for libFuzzer, which only its own programs link (tools/fuzz.sh).
set(CMAKE_CXX_FLAGS_FUZZ "-O1 -g1 -fno-omit-frame-pointer -fno-sanitize-recover=undefined"
  " -fsanitize=fuzzer-no-link,address,undefined")
string(REPLACE ";" "" CMAKE_CXX_FLAGS_FUZZ "${CMAKE_CXX_FLAGS_FUZZ}")

# Every target of ours links this: include root and warnings.
add_library(tessera_flags INTERFACE)
target_include_directories(tessera_flags INTERFACE ${PROJECT_SOURCE_DIR})
# gcc 12 sees copies out of bounds inside std::string (GCC bug 105651): those warnings stay off.
target_compile_options(tessera_flags INTERFACE -Wall -Wextra -Werror -Wno-restrict -Wno-array-bounds
  -Wno-stringop-overflow -Wno-stringop-overread
  $<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-warning-option;-Wno-deprecated-declarations>)

find_program(TESSERA_CCACHE ccache)
if(TESSERA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness is what ccache asks for with precompiled headers. Paths are hashed relative to the
  # build folder, so that build folders of one depth share their results.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      env
      CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_BASEDIR=/
      CCACHE_NOHASHDIR=1
      ${TESSERA_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-fpch-preprocess)
  endif()
endif()

foreach(linker mold lld)
  find_program(TESSERA_LINKER_${linker} NAMES ${linker} ld.${linker})
  if(TESSERA_LINKER_${linker})
    add_link_options(-fuse-ld=${linker})
    break()
  endif()
endforeach()
