#include "tessera/base/error.h"

namespace tessera::detail {

void check_failed(const char* file, int line, const char* expression, const std::string& message) {
  std::string text = concat("check failed: ", expression);
  if (!message.empty()) text += " (" + message + ")";
  text += concat(" at ", file, ":", line);
  throw InternalError(text);
}

}  // namespace tessera::detail
