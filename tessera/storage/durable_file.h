#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>

namespace tessera {

/// A file written front to back that appears under its name, whole and on the disk, when close()
/// succeeds. The bytes go past the page cache where the file system allows that (O_DIRECT): a
/// checkpoint drives no data set out of memory, and the kernel copies nothing. The disk takes one
/// buffer while the next is filled; two buffers of 2 MiB are all the memory that it uses.
/// Everything throws CheckpointError that names the file.
class DurableFile {
 public:
  explicit DurableFile(std::filesystem::path path);
  ~DurableFile();  // without close(): what was written is thrown away
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void append(const char* bytes, uint64_t count);
  void close();

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };

  void hand_over();                               // the filled buffer to the disk
  void write(const char* bytes, uint64_t count);  // runs beside append
  void use_page_cache();
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // its name until close()
  int descriptor_ = -1;
  bool direct_ = false;
  off_t written_ = 0;
  std::unique_ptr<char, Free> filling_, writing_;
  uint64_t filled_ = 0;       // bytes in filling_
  std::future<void> behind_;  // that writes writing_
};

}  // namespace tessera
