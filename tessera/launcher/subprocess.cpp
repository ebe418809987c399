#include "tessera/launcher/subprocess.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// What the child reports through a pipe that exec closes.
struct StartFailure {
  int error = 0;
  char step = ' ';  // o: open the output, c: bind to cpus, e: exec
};

std::string describe(const StartFailure& failure, const Subprocess& subprocess) {
  const std::string reason = std::strerror(failure.error);
  switch (failure.step) {
    case 'o': return "cannot write " + subprocess.output + ": " + reason;
    case 'c': return "cannot bind " + subprocess.argv[0] + " to its cores: " + reason;
    default: return "cannot start " + subprocess.argv[0] + ": " + reason;
  }
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& changes) {
  std::map<std::string, std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equal = text.find('=');
    if (equal != std::string::npos) merged[text.substr(0, equal)] = text.substr(equal + 1);
  }
  for (const auto& [name, value] : changes) merged[name] = value;
  std::vector<std::string> result;
  for (const auto& [name, value] : merged) result.push_back(name + "=" + value);
  return result;
}

[[noreturn]] void fail(int pipe, char step) {
  const StartFailure failure{errno, step};
  [[maybe_unused]] const ssize_t written = ::write(pipe, &failure, sizeof failure);
  ::_exit(127);
}

}  // namespace

pid_t start(const Subprocess& subprocess) {
  // All memory is made ready here: the child may only make system calls.
  std::vector<std::string> arguments = subprocess.argv;
  std::vector<std::string> environment = merged_environment(subprocess.environment);
  std::vector<char*> argv = pointers(arguments);
  std::vector<char*> envp = pointers(environment);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (const int cpu : subprocess.cpus) {
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(cpu, &cpus);
  }
  sigset_t no_signals;
  sigemptyset(&no_signals);
  const pid_t parent = ::getpid();

  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) {
    throw ConfigError(std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  const pid_t child = ::fork();
  if (child < 0) {
    const int error = errno;
    ::close(report[0]);
    ::close(report[1]);
    throw ConfigError("cannot start " + subprocess.argv[0] + ": " + std::strerror(error));
  }
  if (child == 0) {
    if (subprocess.new_session) {
      ::setsid();
    } else {
      ::setpgid(0, 0);
    }
    if (subprocess.dies_with_parent) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(127);  // it ended before prctl
    }
    ::sigprocmask(SIG_SETMASK, &no_signals, nullptr);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD}) {
      ::signal(number, SIG_DFL);
    }
    const int input = ::open("/dev/null", O_RDONLY);
    if (input >= 0) ::dup2(input, STDIN_FILENO);
    if (!subprocess.output.empty()) {
      const int output =
          ::open(subprocess.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
      if (output < 0) fail(report[1], 'o');
      ::dup2(output, STDOUT_FILENO);
      ::dup2(output, STDERR_FILENO);
      ::close(output);
    }
    if (!subprocess.cpus.empty() && ::sched_setaffinity(0, sizeof cpus, &cpus) != 0) {
      fail(report[1], 'c');
    }
    ::execve(argv[0], argv.data(), envp.data());
    fail(report[1], 'e');
  }
  ::close(report[1]);
  StartFailure failure;
  ssize_t got = 0;
  do {
    got = ::read(report[0], &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  ::close(report[0]);
  if (got > 0) {
    ::waitpid(child, nullptr, 0);
    throw ConfigError(describe(failure, subprocess));
  }
  return child;
}

void replace_program(const std::vector<std::string>& argv) {
  std::vector<std::string> arguments = argv;
  std::vector<char*> list = pointers(arguments);
  ::execv(list[0], list.data());
  throw ConfigError("cannot start " + argv[0] + ": " + std::strerror(errno));
}

}  // namespace tessera
