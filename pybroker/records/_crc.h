/* Checksums of records: CRC-32 of messages of magic 0 and 1, CRC-32C of batches. Each extension that includes this has its own
   tables, which pb_crc_init fills. */
#include <stdint.h>
#include <string.h>

/* CRC-32 (IEEE, reflected). Eight tables, eight bytes a step; with carry-less multiplication 64 bytes a step
   (V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", 2009). */
static uint32_t pb_table[8][256];
static int pb_has_clmul;

static inline uint32_t pb_crc_tables(uint32_t crc, const uint8_t *p, size_t n) {
    while (n >= 8) {
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = pb_table[7][low & 255] ^ pb_table[6][low >> 8 & 255] ^ pb_table[5][low >> 16 & 255] ^ pb_table[4][low >> 24]
            ^ pb_table[3][p[4]] ^ pb_table[2][p[5]] ^ pb_table[1][p[6]] ^ pb_table[0][p[7]];
        p += 8;
        n -= 8;
    }
    while (n--) crc = crc >> 8 ^ pb_table[0][(crc ^ *p++) & 255];
    return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define PB_CLMUL __attribute__((target("pclmul,sse4.1")))
#define PB_LOAD(p) _mm_loadu_si128((const __m128i *)(p))

/* The product of the two halves of `a` with the two constants, added to `b`: `a` moved along by a fixed distance. */
PB_CLMUL static inline __m128i pb_fold(__m128i a, __m128i k, __m128i b) {
    return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(a, k, 0x00), _mm_clmulepi64_si128(a, k, 0x11)), b);
}

/* n >= 64 and a multiple of 16 */
PB_CLMUL static inline uint32_t pb_crc_clmul(uint32_t crc, const uint8_t *p, size_t n) {
    const __m128i by_64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4), by_16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    const __m128i by_4 = _mm_set_epi64x(0, 0x0163cd6124), reduce = _mm_set_epi64x(0x01f7011641, 0x01db710641);
    const __m128i low_words = _mm_setr_epi32(-1, 0, -1, 0);
    __m128i a = _mm_xor_si128(PB_LOAD(p), _mm_cvtsi32_si128((int)crc)), b = PB_LOAD(p + 16), c = PB_LOAD(p + 32),
            d = PB_LOAD(p + 48), t;
    for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
        a = pb_fold(a, by_64, PB_LOAD(p));
        b = pb_fold(b, by_64, PB_LOAD(p + 16));
        c = pb_fold(c, by_64, PB_LOAD(p + 32));
        d = pb_fold(d, by_64, PB_LOAD(p + 48));
    }
    a = pb_fold(pb_fold(pb_fold(a, by_16, b), by_16, c), by_16, d);
    for (; n >= 16; p += 16, n -= 16) a = pb_fold(a, by_16, PB_LOAD(p));
    a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_16, 0x10)); /* 128 bits to 96 */
    t = _mm_srli_si128(a, 4);                                                      /* to 64 */
    a = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(a, low_words), by_4, 0x00), t);
    t = _mm_clmulepi64_si128(_mm_and_si128(a, low_words), reduce, 0x10);           /* to 32, by Barrett */
    t = _mm_clmulepi64_si128(_mm_and_si128(t, low_words), reduce, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, t), 1);
}
#endif

static inline uint32_t pb_crc32(const uint8_t *p, size_t n) {
    uint32_t crc = 0xffffffffu;
#if defined(__x86_64__) && defined(__GNUC__)
    if (n >= 64 && pb_has_clmul) {
        size_t folded = n & ~(size_t)15;
        crc = pb_crc_clmul(crc, p, folded);
        p += folded;
        n -= folded;
    }
#endif
    return ~pb_crc_tables(crc, p, n);
}

static void pb_crc_init(int use_clmul) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        pb_table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++) pb_table[k][i] = pb_table[k - 1][i] >> 8 ^ pb_table[0][pb_table[k - 1][i] & 255];
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    pb_has_clmul = use_clmul && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#else
    (void)use_clmul;
    pb_has_clmul = 0;
#endif
}

/* CRC-32C with the processor's own instruction; 0 if there is none. The instruction has a latency of three cycles, so three sums
   are computed at once, each of PB_LANE bytes, and then joined: a table has what a sum becomes behind PB_LANE zeros, another
   behind twice as many. */
#define PB_LANE 512
static int pb_has_crc32c;
static uint32_t pb_behind[2][4][256];

#if defined(__x86_64__) && defined(__GNUC__)
#define PB_SSE42 __attribute__((target("sse4.2")))

PB_SSE42 static inline uint64_t pb_crc32c_step(uint64_t crc, const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, 8);
    return __builtin_ia32_crc32di(crc, word);
}

static inline uint32_t pb_moved(uint32_t table[4][256], uint32_t crc) {
    return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^ table[3][crc >> 24];
}

PB_SSE42 static inline uint32_t pb_crc32c(const uint8_t *p, size_t n) {
    uint64_t crc = 0xffffffffu;
    for (; n >= 3 * PB_LANE; p += 3 * PB_LANE, n -= 3 * PB_LANE) {
        uint64_t second = 0, third = 0;
        for (size_t i = 0; i < PB_LANE; i += 8) {
            crc = pb_crc32c_step(crc, p + i);
            second = pb_crc32c_step(second, p + PB_LANE + i);
            third = pb_crc32c_step(third, p + 2 * PB_LANE + i);
        }
        crc = pb_moved(pb_behind[1], (uint32_t)crc) ^ pb_moved(pb_behind[0], (uint32_t)second) ^ (uint32_t)third;
    }
    for (; n >= 8; p += 8, n -= 8) crc = pb_crc32c_step(crc, p);
    while (n--) crc = __builtin_ia32_crc32qi((uint32_t)crc, *p++);
    return ~(uint32_t)crc;
}

PB_SSE42 static void pb_crc32c_tables(void) {
    for (int twice = 0; twice < 2; twice++)
        for (int byte = 0; byte < 4; byte++)
            for (int bit = 0; bit < 8; bit++) {
                uint64_t crc = (uint64_t)1 << (8 * byte + bit);
                for (int i = 0; i < PB_LANE << twice; i += 8) crc = __builtin_ia32_crc32di(crc, 0);
                for (int i = 0; i < 256; i++)
                    if (i >> bit & 1) pb_behind[twice][byte][i] ^= (uint32_t)crc;
            }
}

static inline void pb_crc32c_init(int use_instruction) {
    __builtin_cpu_init();
    pb_has_crc32c = use_instruction && __builtin_cpu_supports("sse4.2");
    if (pb_has_crc32c && !pb_behind[0][0][1]) pb_crc32c_tables();
}
#else
static inline uint32_t pb_crc32c(const uint8_t *p, size_t n) {
    (void)p, (void)n;
    return 0;
}
static inline void pb_crc32c_init(int use_instruction) { (void)use_instruction; }
#endif
