"""The options that Spark's readers of files know. Spark itself takes any name, and ignores one that is misspelt."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.model.errors import LogError, did_you_mean

_OF_FILES = """
    basePath cleanSource discardCachedInputRatio fileNameOnly ignoreCorruptFiles ignoreInvalidPartitionPaths
    ignoreMissingFiles latestFirst maxBytesPerTrigger maxCachedFiles maxFileAge maxFilesPerTrigger modifiedAfter
    modifiedBefore pathGlobFilter recursiveFileLookup sourceArchiveDir
"""

_OF_TEXTS = """
    charset columnNameOfCorruptRecord compression dateFormat enableDateTimeParsingFallback encoding lineSep locale
    mode multiLine samplingRatio singleVariantColumn timeFormat timeZone timestampFormat timestampNTZFormat
"""

_OF_FORMATS = {
    "csv": f"""{_OF_TEXTS}
        charToEscapeQuoteEscaping codec columnPruning comment delimiter emptyValue enforceSchema escape escapeQuotes
        extension header ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace inferSchema inputBufferSize maxCharsPerColumn
        maxColumns nanValue negativeInf nullValue positiveInf preferDate quote quoteAll sep unescapedQuoteHandling
    """,
    "json": f"""{_OF_TEXTS}
        allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers allowNumericLeadingZeros
        allowSingleQuotes allowUnquotedControlChars allowUnquotedFieldNames dropFieldIfAllNull explodeEmbeddedArray
        ignoreNullFields inferTimestamp prefersDecimal pretty primitivesAsString sortKeys useUnsafeRow
        writeNonAsciiCharacterAsCodePoint
    """,
    "parquet": "compression datetimeRebaseMode int96RebaseMode mergeSchema",
}

_OTHERS = ("parquet.", "fs.", "spark.")
"""How the names of settings begin that files of other systems need, such as keys and addresses."""


def reader_options(format: str) -> list[str]:
    """Every option of Spark's reader of a format.

    >>> [name for name in reader_options("json") if name.startswith("allowUnquoted")]
    ['allowUnquotedControlChars', 'allowUnquotedFieldNames']
    """
    return sorted((_OF_FILES + _OF_FORMATS[format]).split())


def check_options(format: str, given: Iterable[str]) -> None:
    """LogError for an option that Spark's reader of that format would ignore."""
    known = reader_options(format)
    lowered = {name.lower() for name in known}
    for name in given:
        if name.lower() not in lowered and not name.lower().startswith(_OTHERS):
            raise LogError(
                "SOURCE_OPTION",
                f"files of format {format} have no option `{name}`",
                hint=did_you_mean(name, known),
            )
