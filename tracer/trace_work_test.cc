// Reading a trace's line takes work in proportion to its length, however it is
// made. The reader is compiled here so that each of its functions' calls is
// counted (-finstrument-functions); inlined ones are calls, too.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "tracer/trace_file.h"

namespace {
int64_t calls = 0;
}  // namespace

extern "C" {
__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void*,
                                                                      void*) {
  ++calls;
}
__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void*,
                                                                     void*) {}
}

namespace castor {
namespace {

constexpr char kHeader[] =
    "{\"format\":\"castor-trace\",\"version\":18,\"ranks\":1}\n";

std::string Repeated(absl::string_view piece, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ",", piece);
  }
  return text;
}

std::string Numbered(int times, absl::string_view value) {
  std::string text;
  for (int i = 0; i < times; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ",", "\"k", i, "\":", value);
  }
  return text;
}

int64_t CallsFor(const std::string& line) {
  const std::string text = absl::StrCat(kHeader, line, "\n");
  calls = 0;
  static_cast<void>(ParseTrace(text).ok());
  return calls;
}

TEST(TraceWork, GrowsAsTheLineDoes) {
  const struct {
    const char* name;
    std::function<std::string(int)> line;
  } kCases[] = {
      {"a list of objects",
       [](int n) {
         return absl::StrCat("{\"type\":\"x\",\"a\":[", Repeated("{}", n),
                             "]}");
       }},
      {"a list of lists",
       [](int n) {
         return absl::StrCat("{\"type\":\"x\",\"a\":[", Repeated("[[1]]", n),
                             "]}");
       }},
      {"a list of numbers",
       [](int n) {
         return absl::StrCat("{\"type\":\"x\",\"a\":[", Repeated("17", n),
                             "]}");
       }},
      {"many keys",
       [](int n) {
         return absl::StrCat("{\"type\":\"x\",", Numbered(n, "{}"), "}");
       }},
      {"objects in an object",
       [](int n) {
         return absl::StrCat("{\"type\":\"x\",\"a\":{",
                             Numbered(n, "{\"b\":1}"), "}}");
       }},
      {"a long text",
       [](int n) {
         return absl::StrCat("{\"type\":\"", std::string(n, 'x'), "\"}");
       }},
      {"escapes",
       [](int n) {
         std::string text;
         for (int i = 0; i < n; ++i) text += "\\u00e9";
         return absl::StrCat("{\"type\":\"", text, "\"}");
       }},
      {"a record of numbers",
       [](int n) {
         return absl::StrCat("[\"work\",", Repeated("17", n), "]");
       }},
      {"operators",
       [](int n) {
         return absl::StrCat(
             R"({"type":"step_trace","signature":"s","training":true,)",
             R"("micro_batches":1,"measured":false,"global_norm":true,)",
             R"("chunks":[],"ops":[)",
             Repeated(R"({"name":"e","kind":"compute","phase":"forward",)"
                      R"("shapes":"","chunks":[],"writes":[],)"
                      R"("non_model_peak_bytes":6,"workspace_bytes":0,)"
                      R"("duration_ns":1,"host_duration_ns":0})",
                      n),
             "]}");
       }},
  };
  for (const auto& [name, line] : kCases) {
    const int64_t once = CallsFor(line(1000));
    const int64_t twice = CallsFor(line(2000));
    EXPECT_GT(once, 1000) << name;  // so they are counted
    // Keys are sorted: a little more than twice.
    EXPECT_LT(twice, once * 23 / 10) << name;
  }
}

}  // namespace
}  // namespace castor
