#include "command.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace tessera {

CommandResult run_command(const std::string& command, const std::string& folder) {
  TemporaryFolder streams;
  write_file(streams / "command", command + "\n");
  const std::string line = "cd '" + folder + "' && timeout --kill-after=5 1200 /bin/sh '" +
                           (streams / "command") + "' >'" + (streams / "out") + "' 2>'" +
                           (streams / "err") + "' </dev/null";
  const int status = std::system(line.c_str());
  CommandResult result;
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = read_file(streams / "out");
  result.err = read_file(streams / "err");
  return result;
}

std::string programs() { return TESSERA_BIN_DIR; }

int free_port() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof address;
  ::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length);
  ::close(descriptor);
  return ntohs(address.sin_port);
}

}  // namespace tessera
