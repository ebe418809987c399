#include "tessera/base/lfs_pointer.h"

#include <fstream>
#include <string_view>

namespace tessera {

std::string lfs_pointer_problem(const std::filesystem::path& file) {
  // https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md: the first line of every pointer
  constexpr std::string_view kFirst = "version https://git-lfs.github.com/spec/";
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return "";
  std::string start(kFirst.size(), '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  if (!in || start != kFirst) return "";
  return "is a pointer of Git LFS, not the file itself; `git lfs pull` in its repository gets it";
}

}  // namespace tessera
