#include "tessera/config/fields/field_type.h"

#include <charconv>
#include <cmath>

#include "tessera/config/fields/codec_data.h"
#include "tessera/config/fields/codec_structs.h"

namespace tessera {

std::string write_string(const std::string& text) {
  const std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
  Value probe;
  probe.text = text;
  const bool starts_well = !text.empty() && text[0] != '-' && text != "." && text != "..";
  if (starts_well && text.find_first_not_of(plain) == std::string::npos &&
      probe.scalar_type() == ScalarType::kString && !(text[0] >= '0' && text[0] <= '9')) {
    return text;
  }
  std::string out = "\"";
  for (const char c : text) {
    constexpr std::string_view kHex = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string write_float(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, result.ptr);
  const size_t exponent = text.find('e');
  const std::string mantissa = text.substr(0, exponent);
  // A dot, so that readers of YAML 1.1 see a number too.
  if (mantissa.find('.') == std::string::npos)
    text = mantissa + ".0" + text.substr(mantissa.size());
  return text;
}

namespace {

using codec::Codec;

template <typename T>
FieldType make_type(std::string_view name) {
  using Type = typename Codec<T>::Type;
  FieldType type;
  type.name = name;
  type.read = [](const Value& value, void* target) {
    return Codec<T>::read(value, *static_cast<Type*>(target));
  };
  type.check = [](const Value& value) {
    Type scratch{};
    return Codec<T>::read(value, scratch);
  };
  type.write = [](const void* source) {
    return Codec<T>::write(*static_cast<const Type*>(source));
  };
  type.equal = [](const void* a, const void* b) {
    return *static_cast<const Type*>(a) == *static_cast<const Type*>(b);
  };
  type.copy = [](const void* from, void* to) {
    *static_cast<Type*>(to) = *static_cast<const Type*>(from);
  };
  return type;
}

}  // namespace

template <typename T>
const FieldType& field_type() {
  static const std::string name = Codec<T>::name();
  static const FieldType type = make_type<T>(name);
  return type;
}

using StringList = std::vector<std::string>;
using StringLists = std::map<std::string, StringList>;
template const FieldType& field_type<bool>();
template const FieldType& field_type<int64_t>();
template const FieldType& field_type<double>();
template const FieldType& field_type<std::string>();
template const FieldType& field_type<DType>();
template const FieldType& field_type<std::optional<bool>>();
template const FieldType& field_type<std::optional<int64_t>>();
template const FieldType& field_type<std::optional<double>>();
template const FieldType& field_type<std::optional<std::string>>();
template const FieldType& field_type<std::optional<SplitText>>();
template const FieldType& field_type<std::optional<LooseString>>();
template const FieldType& field_type<std::optional<StringList>>();
template const FieldType& field_type<std::optional<StringLists>>();
template const FieldType& field_type<std::optional<LayersPerStage>>();
template const FieldType& field_type<std::optional<std::vector<int64_t>>>();
template const FieldType& field_type<std::vector<int64_t>>();
template const FieldType& field_type<std::vector<double>>();
template const FieldType& field_type<StringList>();
template const FieldType& field_type<std::vector<std::map<std::string, int64_t>>>();
template const FieldType& field_type<std::vector<NewtonSchulzTriple>>();
template const FieldType& field_type<std::vector<CallbackConfig>>();
template const FieldType& field_type<std::vector<InitStdRule>>();
template const FieldType& field_type<std::variant<int64_t, std::vector<int64_t>>>();
template const FieldType& field_type<StringOrList>();
template const FieldType& field_type<std::optional<StringOrList>>();
template const FieldType& field_type<NormSelector>();
template const FieldType& field_type<PromptList>();
template const FieldType& field_type<AnyValue>();
template const FieldType& field_type<TextOrAny>();
template const FieldType& field_type<PackingText>();
template const FieldType& field_type<HandlerList>();

}  // namespace tessera
