#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "tests/support/temp_dir.h"

namespace tessera::test {

/// The folder of the programs of this build: tessera, msrun, …
inline std::filesystem::path bin_dir() { return TESSERA_BIN_DIR; }

struct ProgramResult {
  int code;  // exit code; 128 + n after signal n
  std::string output;
  std::string errors;
};

/// Runs a program of bin_dir() to its end. `environment` holds NAME=value entries that come on top
/// of this process's environment.
inline ProgramResult run_program(const std::string& program,
                                 const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& environment = {}) {
  const TempDir capture;
  const std::string output_file = capture / "out";
  const std::string error_file = capture / "err";

  std::string path = bin_dir() / program;
  std::vector<std::string> words = arguments;
  std::vector<char*> argv = {path.data()};
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  std::vector<std::string> additions = environment;
  std::vector<char*> envp;
  for (std::string& entry : additions) envp.push_back(entry.data());
  for (char** entry = environ; *entry != nullptr; ++entry) envp.push_back(*entry);
  envp.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output_file.c_str(), kFlags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, error_file.c_str(), kFlags, 0600);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, path.c_str(), &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::system_error(error, std::generic_category(), path);

  int status = 0;
  if (waitpid(pid, &status, 0) < 0) throw std::system_error(errno, std::generic_category(), path);
  const auto content = [](const std::string& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  };
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, content(output_file), content(error_file)};
}

}  // namespace tessera::test
