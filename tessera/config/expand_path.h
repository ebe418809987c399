#pragma once

#include <string>

namespace tessera {

/// A path as a shell would read it: `~` and `~/` at the start are the home folder, `$NAME` and
/// `${NAME}` a variable of the environment, `$$` one dollar sign. What is refused (`~user`, a
/// variable that is not set, a `$` that names nothing) is put into `problem`, by name.
std::string expand_path(const std::string& path, std::string& problem);

/// A path that expand_path turns into `path`.
std::string unexpanded(const std::string& path);

}  // namespace tessera
