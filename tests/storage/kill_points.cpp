#include "tests/storage/kill_points.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace {

int g_until_kill = -1;  // of the child; below 0: never

void count() {
  if (g_until_kill > 0 && --g_until_kill == 0) ::raise(SIGKILL);
}

}  // namespace

// In place of the C library's, for this program and for the C++ library.
extern "C" {

int rename(const char* from, const char* to) noexcept {
  count();
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned int flags) noexcept {
  count();
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

int unlink(const char* path) noexcept {
  count();
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  count();
  return static_cast<int>(::syscall(SYS_unlinkat, folder, path, flags));
}

int remove(const char* path) noexcept {  // the C library's own calls cannot be replaced
  count();
  const auto file = static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
  if (file == 0 || errno != EISDIR) return file;
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

int rmdir(const char* path) noexcept {
  count();
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

int mkdir(const char* path, mode_t mode) noexcept {
  count();
  return static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int fsync(int file) {
  count();
  return static_cast<int>(::syscall(SYS_fsync, file));
}
}

namespace tessera::test {

bool killed_at(int n, const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    g_until_kill = n;
    try {
      body();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) {
    ADD_FAILURE() << "no child process";
    return false;
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return true;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return false;
}

}  // namespace tessera::test
