#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tessera/data/mapped_file.h"

namespace tessera {

/// A block of bytes, aligned to 16, on the heap or in a mapped cache file (whose pages all
/// processes of a machine share).
class CachedBlock {
 public:
  const std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  friend CachedBlock cached_block(const std::optional<std::string>&, const std::string&,
                                  const std::string&, int64_t,
                                  const std::function<void(std::byte*)>&);

  MappedFile file_;
  std::unique_ptr<std::byte[]> heap_;
  const std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

/// The block of `bytes` bytes that `description` stands for: mapped from `directory` if a whole,
/// undamaged file for exactly this description lies there, else made by `build` (which gets zeroed
/// memory) and, with a directory, stored there. `description` must hold everything that the bytes
/// depend on.
///
/// Several processes and threads may ask at once: one builds, the others wait for it. A file
/// appears under its name only when it is whole, and a damaged one is replaced. A directory that
/// cannot be written costs one warning, not the run.
CachedBlock cached_block(const std::optional<std::string>& directory, const std::string& kind,
                         const std::string& description, int64_t bytes,
                         const std::function<void(std::byte*)>& build);

/// Name of that file in the directory.
std::string cache_file_name(const std::string& kind, const std::string& description);

}  // namespace tessera
