#include "tessera/data/text/binary_kinds.h"

#include <algorithm>
#include <cstdint>

#include "tessera/base/utf8.h"

namespace tessera {

namespace {

using std::string_view_literals::operator""sv;

constexpr const char* kPandas =
    "make JSON lines of it: python3 -c 'import pandas, sys; "
    "pandas.read_%(sys.argv[1]).to_json(sys.stdout, orient=\"records\", lines=True)' FILE | "
    "tessera preprocess --input - ...";
constexpr const char* kUnpack = "unpack it and give the files inside";
constexpr const char* kGiveText = "extract its text and give that";
constexpr const char* kWeights = "it holds weights, not text";
constexpr const char* kRepack = "decompress it first: % FILE | tessera preprocess --input - ...";

struct Magic {
  std::string_view bytes;
  size_t at;
  const char* what;
  const char* instead;
  const char* word;  // for the % of `instead`
};

constexpr Magic kMagic[] = {
    {"PAR1"sv, 0, "a Parquet file", kPandas, "parquet"},
    {"ARROW1"sv, 0, "an Arrow file", kPandas, "feather"},
    {"\xff\xff\xff\xff"sv, 0, "an Arrow stream",
     "make JSON lines of it with pyarrow and give them by --input -", ""},
    {"FEA1"sv, 0, "a Feather file", kPandas, "feather"},
    {"ORC"sv, 0, "an ORC file", kPandas, "orc"},
    {"Obj\x01"sv, 0, "an Avro file",
     "make JSON lines of it: avro-tools tojson FILE | tessera preprocess --input - ...", ""},
    {"PK\x03\x04"sv, 0, "a zip archive (or a file of an office or .npz, .pt kind)", kUnpack, ""},
    {"PK\x05\x06"sv, 0, "an empty zip archive", kUnpack, ""},
    {"ustar"sv, 257, "a tar archive", kUnpack, ""},
    {"7z\xbc\xaf\x27\x1c"sv, 0, "a 7-Zip archive", kUnpack, ""},
    {"Rar!\x1a\x07"sv, 0, "a RAR archive", kUnpack, ""},
    {"\x04\x22\x4d\x18"sv, 0, "lz4 data", kRepack, "lz4 -dc"},
    {"LZIP"sv, 0, "lzip data", kRepack, "lzip -dc"},
    {"\x1f\x9d"sv, 0, "data of compress (.Z)", kRepack, "gzip -dc"},
    {"\xff\x06\x00\x00sNaPpY"sv, 0, "Snappy data", kRepack, "snzip -dc"},
    {"\x89LZO\0\r\n\x1a\n"sv, 0, "lzop data", kRepack, "lzop -dc"},
    {"\x93NUMPY"sv, 0, "a NumPy array", "give text", ""},
    {"\x89HDF\r\n\x1a\n"sv, 0, "an HDF5 file", kGiveText, ""},
    {"SQLite format 3\0"sv, 0, "an SQLite database", kGiveText, ""},
    {"GGUF"sv, 0, "a GGUF file", kWeights, ""},
    {"MMIDIDX\0\0"sv, 0, "the index of a token file",
     "its tokens are made already; name its prefix in data_path of the configuration", ""},
    {"%PDF-"sv, 0, "a PDF", kGiveText, ""},
    {"{\\rtf"sv, 0, "an RTF document", kGiveText, ""},
    {"\x89PNG\r\n\x1a\n"sv, 0, "an image", "give text", ""},
    {"\xff\xd8\xff"sv, 0, "an image", "give text", ""},
    {"\x7f"
     "ELF"sv,
     0, "a program", "give text", ""},
    {"version https://git-lfs.github.com/spec/"sv, 0, "a pointer file of Git LFS",
     "the data is not here yet; fetch it: git lfs pull", ""},
    {"\xff\xfe\0\0"sv, 0, "text in UTF-32",
     "convert it: iconv -f UTF-32 -t UTF-8 FILE | tessera preprocess --input - ...", ""},
    {"\xff\xfe"sv, 0, "text in UTF-16",
     "convert it: iconv -f UTF-16 -t UTF-8 FILE | tessera preprocess --input - ...", ""},
    {"\xfe\xff"sv, 0, "text in UTF-16",
     "convert it: iconv -f UTF-16 -t UTF-8 FILE | tessera preprocess --input - ...", ""},
};

bool is_safetensors(std::string_view head) {
  if (head.size() < 10 || head.substr(8, 1) != "{") return false;
  uint64_t header = 0;
  for (int i = 7; i >= 0; --i) header = header << 8 | static_cast<uint8_t>(head[i]);
  return header < uint64_t{100} << 20;
}

// A control character that no text has, or has seldom.
bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte == 0x7f || (byte < 0x20 && !(byte >= '\b' && byte <= '\r') && byte != 0x1b);
}

}  // namespace

std::optional<RefusedKind> refused_binary(std::string_view head) {
  const auto controls = std::count_if(head.begin(), head.end(), is_control);
  const bool is_text = controls == 0 && first_invalid_utf8(head) + 4 > head.size();
  for (const Magic& magic : kMagic) {
    if (head.size() < magic.at || !head.substr(magic.at).starts_with(magic.bytes)) continue;
    if (is_text && magic.bytes.size() <= 3) continue;  // a word may begin with "ORC"
    std::string instead = magic.instead;
    if (const size_t gap = instead.find('%'); gap != std::string::npos) {
      instead.replace(gap, 1, magic.word);
    }
    return RefusedKind{magic.what, instead};
  }
  if (is_safetensors(head)) return RefusedKind{"a safetensors file", kWeights};
  if (head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) {
    return RefusedKind{"a pickle of Python", "write its text as JSON lines"};
  }
  const bool zero = head.find('\0') != std::string_view::npos;
  if (zero || controls * 100 > static_cast<int64_t>(head.size())) {
    return RefusedKind{"binary data",
                       "give text; --format text takes the bytes of any input as they are"};
  }
  return std::nullopt;
}

}  // namespace tessera
