#pragma once

#include <string>

namespace tessera::test {

/// `text` as one member of a compressed file, made by the library of each format.
std::string gzip(const std::string& text);
std::string zstd(const std::string& text);
std::string xz(const std::string& text);
std::string lzma(const std::string& text);
std::string bzip2(const std::string& text);

}  // namespace tessera::test
