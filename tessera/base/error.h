#pragma once

#include <cstddef>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace tessera {

/// What the process returns to its caller (docs/launch.md).
enum class ExitCode : int {
  kDone = 0,
  kInternal = 1,    // our own fault: a TESSERA_CHECK, a foreign exception
  kConfig = 2,      // the user's file, flags or data
  kComm = 3,        // a peer or a link
  kCheckpoint = 4,  // a checkpoint
  kNonFinite = 5,   // a loss or a norm that is not finite
  kParity = 6,      // parity differs
};

/// Base of every error that Tessera raises on purpose.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode exit_code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// The user's file, flags or data are wrong; the message names what and what would be right.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message) : Error(ExitCode::kConfig, message) {}
};

/// A peer died, a link broke or a collective timed out.
class CommError : public Error {
 public:
  explicit CommError(const std::string& message) : Error(ExitCode::kComm, message) {}
};

/// A checkpoint is missing, damaged or does not fit the model.
class CheckpointError : public Error {
 public:
  explicit CheckpointError(const std::string& message) : Error(ExitCode::kCheckpoint, message) {}
};

/// A loss or a gradient norm is not finite.
class NonFiniteError : public Error {
 public:
  explicit NonFiniteError(const std::string& message) : Error(ExitCode::kNonFinite, message) {}
};

/// Our own logic is wrong: what TESSERA_CHECK throws.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error(ExitCode::kInternal, message) {}
};

namespace detail {

template <typename T>
concept Streamable = requires(std::ostringstream& out, const T& value) {
  out << value;
};

template <typename T>
void append(std::ostringstream& out, const T& value) {
  if constexpr (Streamable<T>) {
    out << value;
  } else if constexpr (std::is_enum_v<T>) {
    out << static_cast<std::underlying_type_t<T>>(value);
  } else {  // a range, such as a shape
    const char* separator = "[";
    for (const auto& element : value) {
      out << separator << element;
      separator = ", ";
    }
    out << (separator[0] == '[' ? "[]" : "]");
  }
}

template <typename... Args>
std::string concat(const Args&... args) {
  std::ostringstream out;
  out.precision(17);
  (append(out, args), ...);
  return out.str();
}

[[noreturn]] void check_failed(const char* file, int line, const char* expression,
                               const std::string& message);

// Both operands are evaluated once. Returns the message when `a == b` does not hold.
template <typename A, typename B, typename... Args>
std::optional<std::string> compare_equal(const A& a, const B& b, const Args&... args) {
  if constexpr (std::is_integral_v<A> && std::is_integral_v<B> && !std::is_same_v<A, bool> &&
                !std::is_same_v<B, bool>) {
    if (std::cmp_equal(a, b)) return std::nullopt;
  } else {
    if (a == b) return std::nullopt;
  }
  std::string text = concat(a, " vs ", b);
  if constexpr (sizeof...(args) > 0) text += ": " + concat(args...);
  return text;
}

}  // namespace detail
}  // namespace tessera

/// Throws InternalError with the expression, the place and the message (any streamable values).
#define TESSERA_CHECK(cond, ...)                                               \
  do {                                                                         \
    if (!(cond)) [[unlikely]] {                                                \
      ::tessera::detail::check_failed(__FILE__, __LINE__, #cond,               \
                                      ::tessera::detail::concat(__VA_ARGS__)); \
    }                                                                          \
  } while (false)

/// As TESSERA_CHECK(a == b), and prints both values.
#define TESSERA_CHECK_EQ(a, b, ...)                                                        \
  do {                                                                                     \
    if (auto text_ = ::tessera::detail::compare_equal((a), (b)__VA_OPT__(, ) __VA_ARGS__)) \
        [[unlikely]] {                                                                     \
      ::tessera::detail::check_failed(__FILE__, __LINE__, #a " == " #b, *text_);           \
    }                                                                                      \
  } while (false)
