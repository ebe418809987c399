#include "tessera/launcher/program_main.h"

#include <fcntl.h>

#include <algorithm>
#include <exception>

#include "tessera/base/error.h"
#include "tessera/base/log.h"

namespace tessera {
namespace {

// A caller may have closed standard input, output or error. The next file that is opened would take
// the number, and with it what is printed.
void occupy_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (::fcntl(stream, F_GETFD) < 0) static_cast<void>(::open("/dev/null", O_RDWR));
  }
}

}  // namespace

int run_program(const std::function<int()>& body) {
  occupy_standard_streams();
  try {
    return body();
  } catch (const Error& error) {
    log_error(error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    log_error(std::string("internal: ") + error.what());
    return static_cast<int>(ExitCode::kInternal);
  }
}

std::vector<std::string> arguments_of(int argc, char** argv) {
  return std::vector<std::string>(argv + std::min(argc, 1), argv + argc);
}

}  // namespace tessera
