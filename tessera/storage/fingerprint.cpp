#include "tessera/storage/fingerprint.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/storage/manifest.h"
#include "tessera/storage/published_weights.h"
#include "tessera/storage/safetensors_header.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kPieceBytes = 4 << 20;

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    TESSERA_CHECK(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
                  "SHA-256");
  }
  void add(const void* bytes, size_t count) {
    TESSERA_CHECK(EVP_DigestUpdate(context_.get(), bytes, count) == 1, "SHA-256");
  }
  void add(const std::string& text) { add(text.data(), text.size()); }
  std::string hexadecimal() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int length = 0;
    TESSERA_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), &length) == 1, "SHA-256");
    std::string text;
    for (unsigned int i = 0; i < length; ++i) {
      constexpr const char* kDigits = "0123456789abcdef";
      text += kDigits[digest[i] >> 4];
      text += kDigits[digest[i] & 15];
    }
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

void add_bytes(Sha256& sum, const SafetensorsHeaderFile& file, const SafetensorsEntry& entry) {
  std::ifstream in(file.path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(file.data_start + entry.begin));
  std::vector<char> piece(std::min(kPieceBytes, entry.bytes()));
  for (uint64_t left = entry.bytes(); left > 0;) {
    const uint64_t count = std::min<uint64_t>(left, piece.size());
    if (!in.read(piece.data(), static_cast<std::streamsize>(count))) {
      throw CheckpointError(file.path.string() + ": cannot be read");
    }
    sum.add(piece.data(), count);
    left -= count;
  }
}

std::string of_published(const fs::path& folder) {
  std::vector<SafetensorsHeaderFile> files;
  for (const fs::path& path : published_weight_files(folder)) {
    files.push_back(read_safetensors_header(path));
  }
  std::vector<std::pair<const SafetensorsHeaderFile*, const SafetensorsEntry*>> tensors;
  for (const SafetensorsHeaderFile& file : files) {
    for (const auto& [name, entry] : file.entries) tensors.emplace_back(&file, &entry);
  }
  std::ranges::sort(tensors, {}, [](const auto& tensor) { return tensor.second->name; });
  Sha256 sum;
  for (const auto& [file, entry] : tensors) {
    sum.add(entry->name + " " + std::string(name_of(entry->dtype)));
    for (const int64_t extent : entry->shape) sum.add(" " + std::to_string(extent));
    sum.add("\n");
    add_bytes(sum, *file, *entry);
  }
  return sum.hexadecimal();
}

}  // namespace

std::string weights_fingerprint(const fs::path& folder) {
  if (!fs::exists(folder / kManifestName)) return of_published(folder);
  std::ifstream in(folder / kManifestName, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  Sha256 sum;
  sum.add(text.str());
  return sum.hexadecimal();
}

}  // namespace tessera
