"""Record batches of every magic: reading, building, validating, compressing and converting them, without any input or
output.

aborted                  which batches of a fetch belong to aborted transactions
batch, legacy            the formats: batches of magic 2, messages of magic 0 and 1
build, entries           batches from records; batches with keys and values alone, many times as fast
control, varint          control records; the numbers inside records
validate, rules, work    checks the records of a produce request and assigns their offsets; the topic's settings for that, and how
                         much of the work the loop may do
rebuild, refusal         a produced batch in another form; the records for which one is refused
compression, inflate     the codecs; compressed records piece by piece
quick_look               the records of a compressed batch of the usual form, at once
spare                    an object that each thread keeps for its next use
copies                   copies of large data in pieces
convert                  between magic 2 and the formats of old clients, up and down
down_pieces, up_pieces   conversion of what is large inside, piece by piece
windows                  the part of such records that is in memory
lazy_down_conversion, cut_conversion    down-conversion while the response is sent; a first batch that is cut at a limit
kernels, sections        the functions that process every record; those that look for one time, or a fault
conversions              the functions that convert every record, or all batches of a chunk
_kernels_*, _conversions_*, _sections_*   their twins: `_python` has the contract, `_native` is compiled where it was built
errors                   the errors, with the code of their response
"""
