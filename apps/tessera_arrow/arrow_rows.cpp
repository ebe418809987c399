#include "tessera/data/records/arrow_rows.h"

#include <arrow/api.h>
#include <arrow/io/api.h>
#include <arrow/ipc/api.h>
#include <parquet/arrow/reader.h>

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace {

struct Stopped {};

void check(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

template <typename T>
T value_of(arrow::Result<T> result) {
  check(result.status());
  return std::move(result).ValueOrDie();
}

void append_text(std::string_view text, std::string& out) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_number(double value, std::string& out) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", value);
  out += std::isfinite(value) ? text : "null";
}

bool is_known(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::NA:
    case arrow::Type::BOOL:
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
    case arrow::Type::FLOAT:
    case arrow::Type::DOUBLE: return true;
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST: return is_known(*type.field(0)->type());
    case arrow::Type::DICTIONARY:
      return is_known(*static_cast<const arrow::DictionaryType&>(type).value_type());
    case arrow::Type::STRUCT:
      for (const auto& field : type.fields()) {
        if (!is_known(*field->type())) return false;
      }
      return true;
    default: return arrow::is_integer(type.id());
  }
}

void append_value(const arrow::Array& array, int64_t at, std::string& out);

template <typename List>
void append_list(const arrow::Array& array, int64_t at, std::string& out) {
  const auto& list = static_cast<const List&>(array);
  out += '[';
  for (int64_t i = 0; i < list.value_length(at); ++i) {
    if (i > 0) out += ',';
    append_value(*list.values(), list.value_offset(at) + i, out);
  }
  out += ']';
}

void append_struct(const arrow::Array& array, int64_t at, std::string& out) {
  const auto& record = static_cast<const arrow::StructArray&>(array);
  out += '{';
  for (int i = 0; i < record.num_fields(); ++i) {
    if (i > 0) out += ',';
    append_text(record.type()->field(i)->name(), out);
    out += ':';
    append_value(*record.field(i), at, out);
  }
  out += '}';
}

void append_value(const arrow::Array& array, int64_t at, std::string& out) {
  if (array.IsNull(at)) {
    out += "null";
    return;
  }
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      out += static_cast<const arrow::BooleanArray&>(array).Value(at) ? "true" : "false";
      return;
    case arrow::Type::STRING:
      append_text(static_cast<const arrow::StringArray&>(array).GetView(at), out);
      return;
    case arrow::Type::LARGE_STRING:
      append_text(static_cast<const arrow::LargeStringArray&>(array).GetView(at), out);
      return;
    case arrow::Type::FLOAT:
      append_number(static_cast<const arrow::FloatArray&>(array).Value(at), out);
      return;
    case arrow::Type::DOUBLE:
      append_number(static_cast<const arrow::DoubleArray&>(array).Value(at), out);
      return;
    case arrow::Type::LIST: append_list<arrow::ListArray>(array, at, out); return;
    case arrow::Type::LARGE_LIST: append_list<arrow::LargeListArray>(array, at, out); return;
    case arrow::Type::STRUCT: append_struct(array, at, out); return;
    case arrow::Type::DICTIONARY: {
      const auto& coded = static_cast<const arrow::DictionaryArray&>(array);
      append_value(*coded.dictionary(), coded.GetValueIndex(at), out);
      return;
    }
    default:  // an integer
      out += value_of(array.GetScalar(at))->ToString();
  }
}

void check_types(const arrow::Schema& schema) {
  for (const auto& field : schema.fields()) {
    if (is_known(*field->type())) continue;
    throw std::runtime_error("column " + field->name() + " has type " + field->type()->ToString() +
                             ", which is not known: string, integer, float, bool, lists and "
                             "structs of them");
  }
}

void hand_out(arrow::RecordBatchReader& reader, TesseraArrowRow on_row, void* context) {
  check_types(*reader.schema());
  int64_t row = 0;
  std::string json;
  for (std::shared_ptr<arrow::RecordBatch> batch;;) {
    check(reader.ReadNext(&batch));
    if (!batch) return;
    for (int64_t i = 0; i < batch->num_rows(); ++i, ++row) {
      json = "{";
      for (int column = 0; column < batch->num_columns(); ++column) {
        if (column > 0) json += ',';
        append_text(batch->column_name(column), json);
        json += ':';
        append_value(*batch->column(column), i, json);
      }
      json += '}';
      if (on_row(context, json.data(), json.size(), row) == 0) throw Stopped{};
    }
  }
}

void read_parquet(const std::string& path, TesseraArrowRow on_row, void* context) {
  const auto file = value_of(arrow::io::ReadableFile::Open(path));
  const auto reader = value_of(parquet::arrow::OpenFile(file, arrow::default_memory_pool()));
  const auto batches = value_of(reader->GetRecordBatchReader());
  hand_out(*batches, on_row, context);
}

void read_arrow(const std::string& path, TesseraArrowRow on_row, void* context) {
  const auto file = value_of(arrow::io::ReadableFile::Open(path));
  const auto as_file = arrow::ipc::RecordBatchFileReader::Open(file);
  if (!as_file.ok()) {  // a stream, as `datasets` writes
    check(file->Seek(0));
    const auto stream = value_of(arrow::ipc::RecordBatchStreamReader::Open(file));
    hand_out(*stream, on_row, context);
    return;
  }
  const auto& reader = *as_file;
  arrow::RecordBatchVector batches;
  for (int i = 0; i < (*reader).num_record_batches(); ++i) {
    batches.push_back(value_of((*reader).ReadRecordBatch(i)));
  }
  const auto all = value_of(arrow::RecordBatchReader::Make(batches, (*reader).schema()));
  hand_out(*all, on_row, context);
}

}  // namespace

int tessera_read_arrow_rows(const char* kind, const char* path, TesseraArrowRow on_row,
                            void* context, char* error, size_t error_size) {
  try {
    std::string(kind) == "parquet" ? read_parquet(path, on_row, context)
                                   : read_arrow(path, on_row, context);
  } catch (const Stopped&) {
  } catch (const std::exception& failure) {
    std::snprintf(error, error_size, "%s", failure.what());
    return 1;
  }
  return 0;
}
