#include "tessera/launcher/program_main.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdlib>
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

// What a thread of ours or of a library throws and nobody catches is told as everything else is.
[[noreturn]] void tell_and_abort() {
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
    log_error("internal: ended without an exception");
  } catch (const std::exception& error) {
    log_error(std::string("internal: ") + error.what());
  } catch (...) {
    log_error("internal: an exception of an unknown kind");
  }
  std::abort();
}

}  // namespace

int run_program(const std::function<int()>& body) {
  occupy_standard_streams();
  std::set_terminate(tell_and_abort);
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
