#include "tessera/launcher/program_main.h"

#include <algorithm>
#include <exception>

#include "tessera/base/error.h"
#include "tessera/base/log.h"

namespace tessera {

int run_program(const std::function<int()>& body) {
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
