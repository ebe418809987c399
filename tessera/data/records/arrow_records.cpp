#include <dlfcn.h>

#include <exception>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/data/records/arrow_rows.h"
#include "tessera/data/records/record_source.h"

namespace tessera {

namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libtessera-arrow.so";

decltype(&tessera_read_arrow_rows) find_reader(const std::string& file) {
  std::error_code error;
  const fs::path library = fs::read_symlink("/proc/self/exe", error).parent_path() / kLibrary;
  if (!fs::exists(library, error)) {
    throw ConfigError(file + ": parquet and arrow files need " + kLibrary +
                      " beside the program, which was built without it: tools/setup.sh --arrow, "
                      "then make again");
  }
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* found = handle ? ::dlsym(handle, "tessera_read_arrow_rows") : nullptr;
  if (!found) throw ConfigError(library.string() + ": cannot be loaded: " + ::dlerror());
  return reinterpret_cast<decltype(&tessera_read_arrow_rows)>(found);
}

// No exception passes through the library.
struct Receiver {
  const std::string& file;
  const std::function<bool(Record&&)>& on_record;
  std::exception_ptr error;

  static int on_row(void* context, const char* json, size_t size, int64_t row) {
    Receiver& self = *static_cast<Receiver*>(context);
    try {
      DocumentFault place{self.file + " row " + std::to_string(row), 0, 0, "", false};
      auto columns = nlohmann::json::parse(json, json + size, nullptr, false);
      if (columns.is_discarded()) {
        throw ConfigError(place.input + ": a string that is no UTF-8");
      }
      return self.on_record({std::move(columns), std::move(place)}) ? 1 : 0;
    } catch (...) {
      self.error = std::current_exception();
      return 0;
    }
  }
};

}  // namespace

void read_arrow_records(const std::string& kind, const std::string& file,
                        const std::function<bool(Record&&)>& on_record) {
  const auto read = find_reader(file);
  Receiver receiver{file, on_record, nullptr};
  char error[1024] = "";
  const int failed =
      read(kind.c_str(), file.c_str(), &Receiver::on_row, &receiver, error, sizeof(error));
  if (receiver.error) std::rethrow_exception(receiver.error);
  if (failed != 0) throw ConfigError(file + ": " + error);
}

}  // namespace tessera
