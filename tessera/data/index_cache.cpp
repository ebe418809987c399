#include "tessera/data/index_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/data/hash.h"

namespace tessera {

namespace {

// A file is this header, the block, the description.
struct Header {
  char magic[8] = {'T', 'S', 'R', 'I', 'N', 'D', 'X', '1'};
  uint64_t block_bytes = 0;
  uint64_t description_bytes = 0;
  uint64_t block_checksum = 0;
  uint64_t reserved[4] = {};
};
static_assert(sizeof(Header) == 64);  // a multiple of 16, so that a mapped block is aligned

const std::byte* bytes_of(const std::string& text) {
  return reinterpret_cast<const std::byte*>(text.data());
}

std::optional<MappedFile> open_whole(const std::string& path, const std::string& description,
                                     int64_t bytes) {
  if (::access(path.c_str(), R_OK) != 0) return std::nullopt;
  MappedFile file(path);
  const auto length = static_cast<int64_t>(description.size());
  if (file.size() != static_cast<int64_t>(sizeof(Header)) + bytes + length) return std::nullopt;
  Header header;
  std::memcpy(&header, file.data(), sizeof(header));
  const std::byte* block = file.data() + sizeof(Header);
  if (std::memcmp(header.magic, Header{}.magic, sizeof(header.magic)) != 0 ||
      header.block_bytes != static_cast<uint64_t>(bytes) ||
      header.description_bytes != description.size() ||
      std::memcmp(block + bytes, description.data(), description.size()) != 0 ||
      header.block_checksum != checksum64(block, bytes)) {
    return std::nullopt;
  }
  return file;
}

// Held from construction to destruction; excludes threads and processes of this machine, and of
// others where the file system passes locks on. Without it, builders repeat work but do no harm.
class FileLock {
 public:
  explicit FileLock(const std::string& path)
      : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FileLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_;
};

bool write_all(int fd, const void* data, int64_t size) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(fd, from, static_cast<size_t>(size));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    from += written;
    size -= written;
  }
  return true;
}

// Empty if it worked, else the system's reason. A name per machine: what a killed builder left is
// overwritten by the next one there.
std::string store(const std::string& path, const std::string& description, const std::byte* block,
                  int64_t bytes) {
  char host[256] = "host";
  ::gethostname(host, sizeof(host) - 1);
  const std::string part = path + ".part-" + host;
  const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return std::strerror(errno);
  Header header;
  header.block_bytes = static_cast<uint64_t>(bytes);
  header.description_bytes = description.size();
  header.block_checksum = checksum64(block, bytes);
  bool ok = write_all(fd, &header, sizeof(header)) && write_all(fd, block, bytes) &&
            write_all(fd, description.data(), static_cast<int64_t>(description.size())) &&
            ::fsync(fd) == 0;
  int error = ok ? 0 : errno;
  ::close(fd);
  if (ok && std::rename(part.c_str(), path.c_str()) == 0) return "";
  if (ok) error = errno;
  ::unlink(part.c_str());
  return std::strerror(error);
}

}  // namespace

std::string cache_file_name(const std::string& kind, const std::string& description) {
  const auto size = static_cast<int64_t>(description.size());
  std::array<char, 40> hex{};
  std::snprintf(hex.data(), hex.size(), "%016llx%016llx",
                static_cast<unsigned long long>(checksum64(bytes_of(description), size, 1)),
                static_cast<unsigned long long>(checksum64(bytes_of(description), size, 2)));
  return std::string(hex.data()) + "-" + kind + ".index";
}

CachedBlock cached_block(const std::optional<std::string>& directory, const std::string& kind,
                         const std::string& description, int64_t bytes,
                         const std::function<void(std::byte*)>& build) {
  CachedBlock result;
  result.size_ = bytes;
  const auto make = [&] {
    result.heap_ = std::make_unique<std::byte[]>(static_cast<size_t>(bytes));
    build(result.heap_.get());
    result.data_ = result.heap_.get();
  };
  if (!directory) {
    make();
    return result;
  }
  const std::string path =
      (std::filesystem::path(*directory) / cache_file_name(kind, description)).string();
  const auto find = [&] {
    auto file = open_whole(path, description, bytes);
    if (file) {
      result.file_ = std::move(*file);
      result.data_ = result.file_.data() + sizeof(Header);
    }
    return file.has_value();
  };
  if (find()) return result;

  std::error_code ignored;  // a directory that is not there shows in store()
  std::filesystem::create_directories(*directory, ignored);
  const FileLock lock(path + ".lock");
  if (find()) return result;
  make();
  const std::string reason = store(path, description, result.data_, bytes);
  if (!reason.empty()) {
    log_warning("index cache " + path + ": " + reason + "; the index is kept in memory only");
  } else if (find()) {
    result.heap_.reset();
  }
  return result;
}

}  // namespace tessera
