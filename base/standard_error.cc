#include "base/standard_error.h"

#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error_list.h"

namespace castor {
namespace {

using Object = nlohmann::ordered_json;

std::atomic<bool> as_json = false;

Object Line(absl::string_view level, absl::string_view program,
            absl::string_view message) {
  return {{"level", std::string(level)},
          {"program", std::string(program)},
          {"message", std::string(message)}};
}

// Bytes of a file's name that are no UTF-8 are replaced.
std::string Text(const Object& line) {
  return line.dump(-1, ' ', false, Object::error_handler_t::replace) + "\n";
}

void Write(const std::string& lines) { std::fputs(lines.c_str(), stderr); }

}  // namespace

void WriteErrorsAsJson() { as_json = true; }

bool ErrorsAreJson() { return as_json; }

void TellError(absl::string_view program, const absl::Status& status,
               int exit_status) {
  std::string lines;
  for (const std::string& error : ErrorsOf(status)) {
    if (as_json) {
      Object line = Line("error", program, error);
      line["code"] = absl::StatusCodeToString(status.code());
      line["exit_status"] = exit_status;
      absl::StrAppend(&lines, Text(line));
    } else {
      absl::StrAppend(&lines, program, ": ", error, "\n");
    }
  }
  Write(lines);
}

void TellNote(absl::string_view program, absl::string_view message) {
  Write(as_json ? Text(Line("note", program, message))
                : absl::StrCat(program, ": ", message, "\n"));
}

void FormatErrorWithoutMemory(const char* message, const char* code,
                              int exit_status, char* buffer, size_t size) {
  if (!as_json) {
    const int wanted = std::snprintf(buffer, size, "castor: %s\n", message);
    if (wanted >= static_cast<int>(size)) buffer[size - 2] = '\n';
    return;
  }
  char plain[384];
  size_t length = 0;
  for (; message[length] != '\0' && length + 1 < sizeof(plain); ++length) {
    const auto byte = static_cast<unsigned char>(message[length]);
    const bool stays =
        byte >= ' ' && byte < 0x7f && byte != '"' && byte != '\\';
    plain[length] = stays ? message[length] : ' ';
  }
  plain[length] = '\0';
  std::snprintf(
      buffer, size,
      "{\"level\":\"error\",\"program\":\"castor\",\"message\":\"%s\","
      "\"code\":\"%s\",\"exit_status\":%d}\n",
      plain, code, exit_status);
}

}  // namespace castor
