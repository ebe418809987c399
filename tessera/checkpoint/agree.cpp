#include "tessera/checkpoint/agree.h"

#include <c10/util/Exception.h>

#include <filesystem>
#include <new>

#include "tessera/base/error.h"
#include "tessera/comm/gather_text.h"

namespace tessera {

std::string first_error(const ProcessGroup& world, const std::function<void()>& work) {
  std::string own;
  try {
    work();
  } catch (const CheckpointError& error) {
    own = error.what();
  } catch (const std::filesystem::filesystem_error& error) {
    own = error.what();
  } catch (const std::bad_alloc&) {
    own = "out of memory";
  } catch (const c10::Error& error) {  // of the allocator of tensors
    own = error.what_without_backtrace();
  }
  std::string first;
  int more = 0;
  for (const std::string& text : gather_texts(world, own)) {
    if (text.empty()) continue;
    if (first.empty()) {
      first = text;
    } else if (text != first) {
      ++more;
    }
  }
  if (more > 0) first += " (and " + std::to_string(more) + " more ranks failed)";
  return first;
}

void agree(const ProcessGroup& world, const std::function<void()>& work) {
  const std::string error = first_error(world, work);
  if (!error.empty()) throw CheckpointError(error);
}

}  // namespace tessera
