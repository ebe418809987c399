#include "tessera/storage/verified_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/storage/block_sums.h"

namespace tessera {

VerifiedFile::VerifiedFile(std::filesystem::path path, uint64_t bytes, std::vector<uint64_t> sums)
    : path_(std::move(path)), bytes_(bytes), sums_(std::move(sums)) {
  if (sums_.size() != (bytes_ + kSumBlock - 1) / kSumBlock) {
    throw CheckpointError(path_.string() + ": the manifest has too few checksums of it");
  }
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) {
    throw CheckpointError(path_.string() + ": cannot be opened: " + std::strerror(errno));
  }
  struct stat status {};
  const bool is_file = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  if (!is_file || static_cast<uint64_t>(status.st_size) != bytes_) {
    ::close(descriptor_);
    throw CheckpointError(detail::concat(
        path_.string(), ": damaged: ", is_file ? status.st_size : 0, " bytes, should be ", bytes_));
  }
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_SEQUENTIAL);
}

VerifiedFile::~VerifiedFile() { ::close(descriptor_); }

uint64_t VerifiedFile::size_of_block(uint64_t block) const {
  return std::min(kSumBlock, bytes_ - block * kSumBlock);
}

void VerifiedFile::read_block(uint64_t block, char* out) {
  const uint64_t begin = block * kSumBlock;
  const uint64_t count = size_of_block(block);
  for (uint64_t done = 0; done < count;) {
    const ssize_t got =
        ::pread(descriptor_, out + done, count - done, static_cast<off_t>(begin + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw CheckpointError(path_.string() + ": cannot be read: " +
                            (got == 0 ? "the file ends early" : std::strerror(errno)));
    }
    done += static_cast<uint64_t>(got);
  }
  bytes_read_ += count;
  if (block_sum(out, count) != sums_[block]) {
    throw CheckpointError(detail::concat(path_.string(), ": damaged: the checksum of bytes ", begin,
                                         " to ", begin + count, " differs"));
  }
}

void VerifiedFile::read(uint64_t offset, uint64_t count, char* out) {
  TESSERA_CHECK(offset <= bytes_ && count <= bytes_ - offset, path_.string(), ": bytes ", offset,
                " and ", count, " more of ", bytes_);
  while (count > 0) {
    const uint64_t block = offset / kSumBlock;
    const uint64_t within = offset % kSumBlock;
    uint64_t taken = 0;
    if (within == 0 && count >= size_of_block(block)) {
      read_block(block, out);  // where it is wanted
      taken = size_of_block(block);
    } else {
      if (buffered_ != block) {
        buffer_.resize(kSumBlock);
        buffered_ = UINT64_MAX;
        read_block(block, buffer_.data());
        buffered_ = block;
      }
      taken = std::min(count, size_of_block(block) - within);
      std::memcpy(out, buffer_.data() + within, taken);
    }
    offset += taken;
    out += taken;
    count -= taken;
  }
}

void VerifiedFile::verify() {
  std::vector<char> bytes(std::min(kSumBlock, bytes_));
  for (uint64_t block = 0; block < sums_.size(); ++block) read_block(block, bytes.data());
}

}  // namespace tessera
