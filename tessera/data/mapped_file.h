#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera {

/// A file mapped read-only into memory for as long as the object lives. An empty file maps to
/// {nullptr, 0}. The file must not shrink meanwhile.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws ConfigError naming the path and the system's reason.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  const std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace tessera
