// This file holds what products with AMX tile registers share. It is included inside the anonymous
// namespace of a file that is compiled for AMX. Tile numbers are literals in the code that uses
// them, because g++ pastes them into the names of registers.

constexpr uint32_t kTileRows = 16;    // of a register
constexpr uint32_t kTileDepth = 32;   // bf16 in a row, which one step of a product sums over
constexpr size_t kTileRowBytes = 64;  // 32 bf16 or 16 floats

// The shapes of the tile registers, as the processor reads them.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void Shape(int tile, uint32_t tile_rows) {
    row_bytes[tile] = kTileRowBytes;
    rows[tile] = static_cast<uint8_t>(tile_rows);
  }
};

// Values that vectors have stored are in memory before a tile is loaded. The intrinsics of g++ do
// not say that they read memory.
[[gnu::always_inline]] inline void StoredForTiles() { __asm__ volatile("" ::: "memory"); }

inline void LoadTileConfig(const TileConfig& config) {
  // The intrinsic of g++ says that it reads the first eight bytes.
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}

// Registers 0 and 1 are sums of two tiles of columns beside each other. 2 and 3, which products of
// kFour have too, are two such tiles elsewhere.
template <bool kFour>
[[gnu::always_inline]] inline void ZeroSums() {
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (kFour) {
    _tile_zero(2);
    _tile_zero(3);
  }
}

// `stride` is in bytes.
template <bool kFour>
[[gnu::always_inline]] inline void LoadSums(const float* first, const float* second,
                                            size_t stride) {
  _tile_loadd(0, first, stride);
  _tile_loadd(1, first + kTileRows, stride);
  if constexpr (kFour) {
    _tile_loadd(2, second, stride);
    _tile_loadd(3, second + kTileRows, stride);
  }
}

template <bool kFour>
[[gnu::always_inline]] inline void StoreSums(float* first, float* second, size_t stride) {
  _tile_stored(0, first, stride);
  _tile_stored(1, first + kTileRows, stride);
  if constexpr (kFour) {
    _tile_stored(2, second, stride);
    _tile_stored(3, second + kTileRows, stride);
  }
}
