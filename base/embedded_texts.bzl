"""embedded_texts: files that the program carries."""

load("//third_party/precompiled:cc.bzl", "cc_library")

def embedded_texts(name, srcs, hdr, function, visibility = None):
    """A library whose function gives the texts of files, sorted by name.

    Args:
      name: the library's
      srcs: the files; none may have )castor" in it
      hdr: the header that declares the function, which returns an
        absl::Span<const castor::EmbeddedText>
      function: its name, in the namespace castor
      visibility: the library's
    """
    native.genrule(
        name = name + "_source",
        srcs = srcs,
        outs = [name + "_source.cc"],
        cmd = """{
            echo '#include "%s/%s"'
            echo 'namespace castor {'
            echo 'absl::Span<const EmbeddedText> %s() {'
            echo '  static constexpr EmbeddedText kTexts[] = {'
            for file in $$(printf '%%s\\n' $(SRCS) | LC_ALL=C sort); do
                printf '{"%%s", R"castor(' "$${file##*/}"
                cat "$$file"
                echo ')castor"},'
            done
            echo '  };'
            echo '  return kTexts;'
            echo '}'
            echo '}  // namespace castor'
        } > $@""" % (native.package_name(), hdr, function),
        visibility = ["//visibility:private"],
    )
    cc_library(
        name = name,
        srcs = [name + "_source.cc"],
        hdrs = [hdr],
        visibility = visibility,
        deps = [
            "//base:embedded_text",
            "//third_party:abseil",
        ],
    )
