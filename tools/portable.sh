# Sourced by the scripts that collect programs for machines without our packages:
# which shared libraries go along, and how they are found.

# loaded_libraries PROGRAM...: the name and the file of each shared library that
# these load, but for those that come with the C library or with a GPU's driver.
loaded_libraries() {
  local own='^(linux-vdso|ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libcuda)'
  ldd "$@" | awk '$3 ~ /^\// { print $1, $3 }' | sort -u |
    grep -vE "${own}\.so"
}

# find_libraries_in FOLDER FILE...: makes programs and libraries look into FOLDER first,
# whose path begins with $ORIGIN: that stands for the folder of each of them. It sets
# the older of the two tags, which serves what a library itself needs, too.
find_libraries_in() {
  local folder="$1"
  shift
  patchelf --force-rpath --set-rpath "${folder}" "$@"
}
