#include "base/foreign_content.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace castor {
namespace {

// A literal with its zero bytes.
template <size_t N>
constexpr absl::string_view Raw(const char (&bytes)[N]) {
  return absl::string_view(bytes, N - 1);
}

constexpr std::pair<absl::string_view, absl::string_view> kKnown[] = {
    {Raw("version https://git-lfs.github.com/spec/"),
     "is a git-lfs pointer, not the file: git lfs pull fetches it"},
    {Raw("\x1f\x8b\x08"), "is compressed by gzip: unpack it (gunzip)"},
    {Raw("\x28\xb5\x2f\xfd"), "is compressed by zstd: unpack it (unzstd)"},
    {Raw("\xfd"
         "7zXZ\0"),
     "is compressed by xz: unpack it (unxz)"},
    {Raw("BZh91AY"), "is compressed by bzip2: unpack it (bunzip2)"},
    {Raw("PK\x03\x04"),
     "is a zip archive (NumPy's .npz and PyTorch's files are, too): unpack it"},
    {Raw("PAR1"), "is a Parquet file: give it a name that ends in .parquet"},
    {Raw("ARROW1\0\0"), "is an Arrow file: write its rows as JSON lines"},
    {Raw("\x89HDF\r\n\x1a\n"), "is an HDF5 file"},
    {Raw("%PDF-"), "is a PDF"},
};

}  // namespace

absl::string_view ForeignContent(absl::string_view head) {
  for (const auto& [begin, is] : kKnown) {
    if (absl::StartsWith(head, begin)) return is;
  }
  return "";
}

absl::string_view WebPage(absl::string_view head) {
  head = absl::StripLeadingAsciiWhitespace(head);
  return absl::StartsWithIgnoreCase(head, "<!doctype html") ||
                 absl::StartsWithIgnoreCase(head, "<html")
             ? "is a web page (HTML), which a server may give in place of a "
               "file"
             : "";
}

absl::string_view WideText(absl::string_view head) {
  constexpr absl::string_view kUtf16 =
      "is UTF-16 text, not UTF-8: iconv -f UTF-16 -t UTF-8 converts it";
  constexpr absl::string_view kUtf32 =
      "is UTF-32 text, not UTF-8: iconv -f UTF-32 -t UTF-8 converts it";
  if (absl::StartsWith(head, Raw("\xff\xfe\0\0")) ||
      absl::StartsWith(head, Raw("\0\0\xfe\xff"))) {
    return kUtf32;
  }
  if (absl::StartsWith(head, Raw("\xff\xfe")) ||
      absl::StartsWith(head, Raw("\xfe\xff"))) {
    return kUtf16;
  }
  // Each unit of `width` bytes has a printable ASCII character at `place`, and
  // zeros elsewhere.
  const auto has_units = [&](size_t width, size_t place) {
    const size_t looked_at = std::min<size_t>(head.size(), 64) / width * width;
    if (looked_at < 4 * width) return false;
    for (size_t i = 0; i < looked_at; ++i) {
      const bool letter =
          absl::ascii_isprint(head[i]) || absl::ascii_isspace(head[i]);
      if (i % width == place ? !letter : head[i] != '\0') return false;
    }
    return true;
  };
  if (has_units(2, 0)) {
    return "is UTF-16 text, not UTF-8: iconv -f UTF-16LE -t UTF-8 converts it";
  }
  if (has_units(2, 1)) {
    return "is UTF-16 text, not UTF-8: iconv -f UTF-16BE -t UTF-8 converts it";
  }
  return has_units(4, 0) || has_units(4, 3) ? kUtf32 : "";
}

}  // namespace castor
