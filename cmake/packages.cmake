# Libraries of the distribution.

find_package(Threads REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)

find_package(yaml-cpp REQUIRED)
if(NOT TARGET yaml-cpp::yaml-cpp)  # 0.7 and older export the bare name
  add_library(yaml-cpp::yaml-cpp INTERFACE IMPORTED)
  target_link_libraries(yaml-cpp::yaml-cpp INTERFACE yaml-cpp)
endif()

# SentencePiece has no CMake package.
find_path(SENTENCEPIECE_INCLUDE_DIR sentencepiece_processor.h REQUIRED)
find_library(SENTENCEPIECE_LIBRARY sentencepiece REQUIRED)
add_library(sentencepiece::sentencepiece INTERFACE IMPORTED)
target_include_directories(sentencepiece::sentencepiece INTERFACE ${SENTENCEPIECE_INCLUDE_DIR})
target_link_libraries(sentencepiece::sentencepiece INTERFACE ${SENTENCEPIECE_LIBRARY})

# Compressed text. Of zstd not every Debian version has a CMake package.
find_package(ZLIB REQUIRED)
find_package(LibLZMA REQUIRED)
find_package(BZip2 REQUIRED)
find_path(ZSTD_INCLUDE_DIR zstd.h REQUIRED)
find_library(ZSTD_LIBRARY zstd REQUIRED)
add_library(tessera_compression INTERFACE)
target_include_directories(tessera_compression INTERFACE ${ZSTD_INCLUDE_DIR})
target_link_libraries(tessera_compression INTERFACE
  ZLIB::ZLIB LibLZMA::LibLZMA BZip2::BZip2 ${ZSTD_LIBRARY})

# Signatures of TESSERA_JOB_SECRET.
find_package(OpenSSL REQUIRED COMPONENTS Crypto)

# Regex and normal forms of Unicode for tokenizers; neither has a CMake package in every Debian version.
find_path(PCRE2_INCLUDE_DIR pcre2.h REQUIRED)
find_library(PCRE2_LIBRARY pcre2-8 REQUIRED)
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h REQUIRED)
find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
add_library(tessera_text INTERFACE)
target_include_directories(tessera_text INTERFACE ${PCRE2_INCLUDE_DIR} ${UTF8PROC_INCLUDE_DIR})
target_link_libraries(tessera_text INTERFACE ${PCRE2_LIBRARY} ${UTF8PROC_LIBRARY})
